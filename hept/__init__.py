"""The LSH-based efficient point transformer: model, losses, metrics, trainer, evaluator."""

from hepdata.openmp import limit_spinning

limit_spinning()  # before anything here loads torch

from hept.attention.clouds import Clouds
from hept.attention.layer import HEPTAttention
from hept.model import HEPT
from hept.published import load_published

__all__ = ["HEPT", "Clouds", "HEPTAttention", "load_published"]
