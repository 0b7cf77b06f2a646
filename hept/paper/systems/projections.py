"""Projections that all attentions of the comparison share: features enter, queries, keys and values leave.

Two kernels: `dot`, exp(q·k) with a positional encoding added to the features (transformers as they were
published), and `gauss`, exp(−½‖q − k‖²) with √(2ω)ρ appended (the kernel of HEPT, paper Sec. 4.1).

Axes: N points, H heads, D dimensions of a head.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import TERMS_OF_OMEGA, lift_periodic
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory

Kernel = Literal["dot", "gauss"]


class Mechanism(Protocol):
    """The part in which efficient transformers differ: which pairs are computed, and how."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""


class MultiHeadAttention(nn.Module):
    """Project, attend by any mechanism, concatenate the heads.

    Args:
        hidden_dim: Width of the input and output features, and of each head.
        coords_dim: Coordinates of a point.
        n_heads: Attention heads.
        mechanism: A module that is a `Mechanism`.
        kernel: `dot` or `gauss`.
        position_width: Hidden width of the positional encoding (`dot`); chosen to match parameters.
        is_tied: Whether queries and keys share one projection.
        periods: Periods of the coordinates that are angles, by column, such as {1: 2π}.
    """

    def __init__(
        self,
        hidden_dim: int,
        coords_dim: int,
        *,
        n_heads: int,
        mechanism: nn.Module,
        kernel: Kernel = "dot",
        position_width: int = 24,
        is_tied: bool = False,
        periods: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__()
        width = n_heads * hidden_dim
        self.n_heads, self.kernel, self.periods = n_heads, kernel, dict(periods or {})
        n_lifted = coords_dim + len(self.periods)
        self.w_q = nn.Linear(hidden_dim, width, bias=False)
        self.w_k = None if is_tied else nn.Linear(hidden_dim, width, bias=False)
        self.w_v = nn.Linear(hidden_dim, width, bias=False)
        self.out_linear = nn.Linear(width, hidden_dim)
        self.position: nn.Module = (
            CoordinateScale(n_heads, hidden_dim, coords_dim, self.periods)
            if kernel == "gauss"
            else encode_position(n_lifted, position_width, hidden_dim)
        )
        self.mechanism = mechanism

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, hidden_dim) to (N, hidden_dim)."""
        if x.shape[0] == 0:
            return x
        value = self._split(self.w_v(x))
        # Half precision would scramble hashes and distances; values and linear layers tolerate it.
        with torch.autocast(x.device.type, enabled=False):
            query, key = self._query_and_key(x.to(coords.dtype), coords)
            out = self.mechanism(query, key, value.to(query.dtype), coords, clouds)
        joined: Tensor = self.out_linear(out.to(value.dtype).movedim(0, 1).flatten(1))
        return joined

    def _query_and_key(self, x: Tensor, coords: Tensor) -> tuple[Tensor, Tensor]:
        """(H, N, D) twice."""
        position = self.position(lift_periodic(coords, self.periods))
        if self.kernel == "dot":
            x = x + position
        query = self._split(self.w_q(x))
        key = query if self.w_k is None else self._split(self.w_k(x))
        if self.kernel == "gauss":
            # The scaled coordinates of each head, (H, N, P).
            return torch.cat([query, position], -1), torch.cat([key, position], -1)
        # The usual factor 1/√D of the logits, split between query and key.
        return query * query.shape[-1] ** -0.25, key * key.shape[-1] ** -0.25

    def _split(self, rows: Tensor) -> Tensor:
        """(N, H·hidden_dim) to (H, N, hidden_dim)."""
        return rows.view(rows.shape[0], self.n_heads, rows.shape[1] // self.n_heads).movedim(1, 0)


class CoordinateScale(nn.Module):
    """√(2ω)ρ for each head, with ω > 0 learned as in HEPT; the first two coordinates, η and φ, share ω."""

    def __init__(self, n_heads: int, hidden_dim: int, coords_dim: int, periods: Mapping[int, float]) -> None:
        super().__init__()
        shared = (0, *range(max(coords_dim - 1, 0)))[:coords_dim]
        # An angle is lifted to two coordinates, which share one ω.
        self.omega_of_coord = tuple(
            omega for column, omega in enumerate(shared) for _ in range(2 if column in periods else 1)
        )
        n_omega = max(self.omega_of_coord, default=-1) + 1
        bound = 1 / math.sqrt(max(n_omega, 1) * TERMS_OF_OMEGA)
        self.terms = nn.Parameter(
            torch.empty(n_heads, hidden_dim, n_omega, TERMS_OF_OMEGA).uniform_(-bound, bound)
        )

    def forward(self, coords: Tensor) -> Tensor:
        """(N, P) lifted coordinates to (H, N, P)."""
        omega = self.terms.sum(1).clamp(max=50).exp().sum(-1)[:, list(self.omega_of_coord)]
        return (2 * omega).sqrt()[:, None] * coords


def encode_position(coords_dim: int, width: int, hidden_dim: int) -> nn.Module:
    """A network from coordinates to an absolute positional encoding."""
    return nn.Sequential(nn.Linear(coords_dim, width), nn.ReLU(), nn.Linear(width, hidden_dim))


def multi_head(
    frame: Frame,
    width: int,
    make_mechanism: Callable[[int, int], nn.Module],
    kernel: Kernel = "dot",
    *,
    is_tied: bool = False,
) -> AttentionFactory:
    """A factory of the multi-head attentions of one system.

    Args:
        frame: Sizes, shared by all systems.
        width: Hidden width of the positional encoding; chosen to match the number of parameters.
        make_mechanism: Makes the mechanism from (dimensions of a query, index of the layer).
        kernel: `dot` or `gauss`.
        is_tied: Whether queries and keys share one projection.
    """
    layers = itertools.count()

    def make_attention(hidden_dim: int, coords_dim: int) -> nn.Module:
        n_lifted = coords_dim + len(frame.periods)
        dim = hidden_dim + (n_lifted if kernel == "gauss" else 0)
        return MultiHeadAttention(
            hidden_dim,
            coords_dim,
            n_heads=frame.n_heads,
            mechanism=make_mechanism(dim, next(layers)),
            kernel=kernel,
            position_width=width,
            is_tied=is_tied,
            periods=frame.periods,
        )

    return make_attention
