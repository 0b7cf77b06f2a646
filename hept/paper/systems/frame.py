"""Sizes that all systems of a comparison share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from hept.attention.definition import Kernel
from hept.attention.kernels import Backend

# Makes the attention of a block from (hidden_dim, coords_dim).
AttentionFactory = Callable[[int, int], nn.Module]


@dataclass(frozen=True)
class Frame:
    """Sizes and inputs that all systems of a comparison share.

    Attributes:
        n_features: Columns of `features`, the class column included.
        coords_dim: Columns of `coords`.
        out_dim: Columns of the output.
        n_layers: Layers.
        hidden_dim: Width of the point features of transformers, and of each head.
        ff_dim: Width between the two layers of transformers' feed-forward networks; None: `hidden_dim`.
        head_width: Width inside the embedding head of transformers.
        n_heads: Attention heads.
        block_size: Points per attention block; also sets the numbers of random features and samples.
        n_tables: Hash tables.
        n_regions: Product of the AND bucket numbers of HEPT.
        n_neighbors: Neighbours of each point in graphs.
        head: "embedding" or "classification".
        n_classes: Classes of the embedded feature, 0 for none.
        class_feature: Column of `features` that holds the class.
        dropout: Dropout probability in training.
        periods: Periods of the coordinates that are angles, by column.
        kernel: Kernel of HEPT.
        tied_qk: Whether HEPT's queries and keys share one projection.
        encode_place: Whether HEPT adds coordinates to its point features; see `HEPT`.
        backend: Kernel by which HEPT's attention is computed.
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
