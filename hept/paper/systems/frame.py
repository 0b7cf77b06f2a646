"""The sizes that all systems of a comparison share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hept.attention.definition import Kernel
from hept.attention.kernels import Backend


@dataclass(frozen=True)
class Frame:
    """What all systems of a comparison share.

    Attributes:
        n_features: Columns of `features`, the class column included.
        coords_dim: Columns of `coords`.
        out_dim: Columns of the output.
        n_layers: Layers.
        hidden_dim: Width of the point features of transformers, and of each head.
        ff_dim: Width of transformers between the two layers of a feed-forward; `hidden_dim` if not said.
        n_heads: Attention heads.
        block_size: Points of an attention block; sets the number of random features and samples too.
        n_tables: Hash tables.
        n_regions: Product of the AND bucket numbers of HEPT.
        n_neighbors: Neighbours of a graph.
        head: "embedding" or "classification".
        n_classes: Classes of the embedded feature, 0 for none.
        class_feature: Column of `features` that holds the class.
        dropout: Probability of dropping in training.
        periods: Period by coordinate for those that are angles.
        kernel: Of HEPT itself.
        tied_qk: Whether HEPT's own queries are its keys.
        encode_place: Whether HEPT's coordinates enter its point features too; see `HEPT`.
        backend: How HEPT's own attention is computed.
    """

    n_features: int
    coords_dim: int
    out_dim: int
    n_layers: int = 4
    hidden_dim: int = 24
    ff_dim: int | None = None
    n_heads: int = 8
    block_size: int = 100
    n_tables: int = 3
    n_regions: float = 150
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
