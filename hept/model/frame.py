"""Sizes and inputs of a network: what HEPT and the systems that are compared with it have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from hept.attention import N_REGIONS
from hept.attention.definition import Kernel
from hept.attention.kernels import Backend
from hept.model.transformer import HEPT, AttentionFactory


@dataclass(frozen=True)
class Frame:
    """Sizes and inputs that all systems of a comparison share.

    `hept.model.transformer.HEPT` describes them; `n_neighbors` are those of a point in graph networks.
    """

    n_features: int
    coords_dim: int
    out_dim: int
    n_layers: int = 4
    hidden_dim: int = 24
    ff_dim: int | None = None
    head_width: int = 256
    n_heads: int = 8
    block_size: int = 100
    n_tables: int = 3
    n_regions: float = N_REGIONS
    n_neighbors: int = 64
    head: Literal["embedding", "classification"] = "embedding"
    n_classes: int = 0
    class_feature: int = -1
    dropout: float = 0.1
    periods: dict[int, float] = field(default_factory=dict)
    kernel: Kernel = "gaussian"
    tied_qk: bool = False
    encode_place: bool | None = None
    backend: Backend = "auto"

    def build_hept(self, attention: AttentionFactory | None = None) -> HEPT:
        """HEPT, or the same network with another attention."""
        sizes = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "n_neighbors"}
        return HEPT(**sizes, attention=attention)
