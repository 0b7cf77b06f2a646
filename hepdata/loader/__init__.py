"""Datasets back in memory: clouds as numpy arrays, batches as torch tensors."""
