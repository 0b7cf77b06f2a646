"""How good a model is: retrieval of a particle's hits, classification of particles, reconstructed tracks."""

from hept.metrics.classification import Classification, classify
from hept.metrics.retrieval import Retrieval, average_precision_at_k

__all__ = ["Classification", "Retrieval", "average_precision_at_k", "classify"]
