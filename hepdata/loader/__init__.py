"""Datasets back in memory: clouds as numpy arrays, batches as torch tensors."""

from hepdata.openmp import limit_spinning

limit_spinning()  # before anything here loads torch
