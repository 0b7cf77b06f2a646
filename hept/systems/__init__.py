"""Every system that the paper compares: efficient transformers and graph networks in one frame."""

from hept.systems.catalog import CATALOG, find_system
from hept.systems.frame import Frame
from hept.systems.registry import build_model

__all__ = ["CATALOG", "Frame", "build_model", "find_system"]
