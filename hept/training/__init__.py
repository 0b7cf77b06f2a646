"""From a dataset and a configuration to a run folder with a trained model."""
