"""From a trained model and a dataset to metrics, tracks and predictions."""
