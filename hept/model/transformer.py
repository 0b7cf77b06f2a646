"""The HEPT model (paper, Appendix C): point features and coordinates enter, one output row per point leaves.

    h₀ = encode(x);  h_ℓ = block_ℓ(h_{ℓ−1});  out = head([h₀ ‖ h₁ ‖ … ‖ h_L])

Axes: N points, B clouds, F features, D coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from hept.attention import N_REGIONS
from hept.attention.clouds import Clouds
from hept.attention.definition import AND_COORDS, Geometry, HEPTAttention, Kernel
from hept.attention.kernels import Backend
from hept.devices.precision import full_precision
from hept.model.heads import embed_class, make_head

# Makes the attention of a block: a module that maps (x (N, hidden), coords (N, D), clouds) to (N, hidden).
AttentionFactory = Callable[[int, int], nn.Module]


class TransformerBlock(nn.Module):
    """x += drop(attention(norm x)); x += drop(ff(norm x))."""

    def __init__(self, hidden_dim: int, attention: nn.Module, *, ff_dim: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden_dim)
        self.attention = attention
        self.norm2 = nn.LayerNorm(hidden_dim)
        self.ff = _make_perceptron(hidden_dim, ff_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds, geometry: Geometry | None = None) -> Tensor:
        """(N, hidden) to (N, hidden); only HEPT's own attention takes a geometry."""
        shared = () if geometry is None else (geometry,)
        with full_precision(x.device):
            x = x + self.dropout(self.attention(self.norm1(x), coords, clouds, *shared))
            return x + self.dropout(self.ff(self.norm2(x)))  # type: ignore[no-any-return]


class HEPT(nn.Module):
    """The LSH-based efficient point transformer.

    Args:
        n_features: Columns of `features`, the class column included.
        coords_dim: Columns of `coords`.
        out_dim: Columns of the output: the embedding's (tracking: 12), or the logits' (pileup: 1).
        n_layers: Transformer blocks.
        hidden_dim: Width of the point features, and of each head.
        ff_dim: Width between the two layers of encoder and feed-forward networks; None: `hidden_dim`.
        head_width: Width inside the head.
        n_heads: Attention heads.
        block_size: Points per attention block.
        n_tables: OR hash tables, m₁.
        n_regions: Product of the AND bucket numbers, G.
        and_coords: Which coordinates feed the AND codes; see `HEPTAttention` for this and the next five.
        n_hidden_codes: AND codes from projections of queries and keys.
        periods: Periods of the coordinates that are angles, by column.
        kernel: "gaussian", or "dot": the standard kernel.
        tied_qk: Whether queries and keys share one projection.
        encode_place: Whether a linear map of the coordinates is added to the point features. None: only with
            the standard kernel, which does not use coordinates otherwise; as published.
        backend: How attention blocks are computed.
        head: "embedding" for a residual network of width `out_dim`; "classification" for logits.
        n_classes: Classes of the embedded feature, 0 for none.
        class_feature: Column of `features` that holds the class.
        class_dim: Width of the class embedding.
        dropout: Dropout probability in training.
        attention: Makes the attention of each block from (hidden_dim, coords_dim), instead of HEPT's own.

    Raises:
        ValueError: A setting is out of range.
    """

    def __init__(
        self,
        n_features: int,
        coords_dim: int,
        out_dim: int,
        *,
        n_layers: int = 4,
        hidden_dim: int = 24,
        ff_dim: int | None = None,
        head_width: int = 256,
        n_heads: int = 8,
        block_size: int = 100,
        n_tables: int = 3,
        n_regions: float = N_REGIONS,
        and_coords: Sequence[int] = AND_COORDS,
        n_hidden_codes: int = 0,
        periods: Mapping[int, float] | None = None,
        kernel: Kernel = "gaussian",
        tied_qk: bool = False,
        encode_place: bool | None = None,
        backend: Backend = "auto",
        head: Literal["embedding", "classification"] = "embedding",
        n_classes: int = 0,
        class_feature: int = -1,
        class_dim: int = 10,
        dropout: float = 0.1,
        attention: AttentionFactory | None = None,
    ) -> None:
        super().__init__()
        if head not in ("embedding", "classification"):
            raise ValueError(f"head: got {head!r}, need 'embedding' or 'classification'")
        self.n_features, self.coords_dim = n_features, coords_dim
        self.class_feature = class_feature % n_features
        self.class_embedding = nn.Embedding(n_classes, class_dim) if n_classes else None
        width = n_features - 1 + class_dim if n_classes else n_features
        ff_dim = ff_dim or hidden_dim
        self.encoder = _make_perceptron(width, ff_dim, hidden_dim)
        make_attention = attention or partial(
            HEPTAttention,
            n_heads=n_heads,
            block_size=block_size,
            n_tables=n_tables,
            n_regions=n_regions,
            and_coords=and_coords,
            n_hidden_codes=n_hidden_codes,
            periods=periods,
            kernel=kernel,
            tied_qk=tied_qk,
            backend=backend,
        )
        has_place = kernel == "dot" if encode_place is None else encode_place
        self.encode_place = nn.Linear(coords_dim, hidden_dim) if has_place else None
        self.blocks = nn.ModuleList(
            TransformerBlock(
                hidden_dim, make_attention(hidden_dim, coords_dim), ff_dim=ff_dim, dropout=dropout
            )
            for _ in range(n_layers)
        )
        joined = hidden_dim * (n_layers + 1)
        self.head = make_head(
            head, joined, out_dim, embedding_dim=hidden_dim // 2, dropout=dropout, width=head_width
        )

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """Map points to outputs.

        Args:
            features: (N, n_features).
            coords: (N, coords_dim).
            offsets: (B+1,) int64, where clouds begin and end on the point axis.

        Returns:
            (N, out_dim), in the order of the points.

        Raises:
            ValueError: Inputs have other shapes.
        """
        self._check_shapes(features, coords)
        clouds = Clouds.from_offsets(offsets, features.shape[0])
        with full_precision(features.device):
            x = self.encoder(embed_class(features, self.class_feature, self.class_embedding))
            if self.encode_place is not None:
                x = x + self.encode_place(coords)
        layers, geometry = [x], self._measure(coords, clouds)
        for block in self.blocks:
            x = block(x, coords, clouds, geometry)
            layers.append(x)
        return self.head(torch.cat(layers, -1))  # type: ignore[no-any-return]

    def _measure(self, coords: Tensor, clouds: Clouds) -> Geometry | None:
        """The geometry that the layers share; None if they are not HEPT's own or cannot share it."""
        attentions = [block.get_submodule("attention") for block in self.blocks]
        first = attentions[0] if attentions else None
        if not isinstance(first, HEPTAttention) or not all(first.can_share(each) for each in attentions):
            return None
        return first.measure(coords, clouds) if clouds.n_points else None

    def _check_shapes(self, features: Tensor, coords: Tensor) -> None:
        for name, rows, width in (
            ("features", features, self.n_features),
            ("coords", coords, self.coords_dim),
        ):
            if rows.ndim != 2 or rows.shape[1] != width:
                raise ValueError(f"{name}: got shape {tuple(rows.shape)}, need (n_points, {width})")
        if features.shape[0] != coords.shape[0]:
            raise ValueError(
                f"coords: got {coords.shape[0]} rows, need as many as features: {features.shape[0]}"
            )


def _make_perceptron(in_dim: int, width: int, out_dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(in_dim, width), nn.ReLU(), nn.Linear(width, out_dim))
