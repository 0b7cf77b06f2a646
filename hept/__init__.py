"""The LSH-based efficient point transformer: model, losses, metrics, trainer, evaluator."""
