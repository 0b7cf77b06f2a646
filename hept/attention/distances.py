"""−½‖q−k‖² as one matrix product that does not cancel: queries and keys enter, their columns leave.

    −½‖q−k‖² = q·k − ½q² − ½k²

In float32 the three terms of the coordinates, c = √(2ω)ρ, lose the difference: with trained ω by up to 0.6.
These columns, which we call sharp, are therefore cut in two on a grid of step δ, c = h + l, h = δ·round(c/δ):

    h_q·h_k − ½h_q² − ½h_k²         whole multiples of ½δ², fewer than 2²⁴: exact
    h_q·l_k + l_q·c_k − …           a thousandth of that, so is its rounding

The exact terms come first, so that their sum is as small as the result when the others are added.

Axes: N points, B clouds, H heads, D dimensions of a query, P sharp ones, the last, W columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hept.attention.clouds import Clouds

# Steps δ beyond which float32 is no longer good enough: the logit is then off by 0.01 and more.
LARGEST_STEP = 4.0
# Steps up to which no grid is needed: the plain product is then off by 0.0003 in the mean, 0.003 at most.
NEGLIGIBLE_STEP = 2.0**-5


@dataclass(frozen=True)
class Sharp:
    """The last columns of queries and keys, whose numbers are large and close together.

    Attributes:
        n_columns: How many, P.
        step: (H, N) δ of the point's cloud, a power of two; (H, 1) where all points share it.
    """

    n_columns: int
    step: Tensor


def reach_of_clouds(place: Tensor, clouds: Clouds) -> Tensor:
    """How far the coordinates (N, P) of each cloud reach from 0: (B, P)."""
    if clouds.n_clouds == 1:
        return place.abs().amax(0, keepdim=True)
    index = clouds.index.unsqueeze(1).expand(place.shape)
    return place.new_zeros(clouds.n_clouds, place.shape[1]).scatter_reduce(0, index, place.abs(), "amax")


def choose_step(reach: Tensor, n_columns: int, clouds: Clouds) -> Sharp:
    """The grid for clouds whose sharp columns reach so far from 0 (H, B)."""
    # Partial sums stay below 2P·n² halves of δ², n being the largest multiple of δ.
    n_steps = math.sqrt(2**24 / (2 * n_columns))
    exponent = (reach.float().clamp(min=1e-30) / n_steps).log2().ceil()
    step = exponent.exp2()
    return Sharp(n_columns, step if clouds.n_clouds == 1 else clouds.spread(step))


def query_columns(query: Tensor, sharp: Sharp | None) -> list[Tensor]:
    """[h, 1, −½h², h, 1, −½mild² − h·l − ½l², mild, l], to be joined to W = D + 2P + 4 columns.

    Without sharp columns [1, −½q², q].

    Args:
        query: (…, N, D).
        sharp: Its sharp columns, on which the grid is laid.
    """
    if sharp is None:
        half = _half_square(query)
        return [torch.ones_like(half), half, query]
    mild, high, low, half, rest = _cut(query, sharp)
    one = torch.ones_like(rest)
    # Narrow columns are computed and joined as stretches of memory, which is several times faster.
    return [torch.cat([high, one, half, high, one, rest], -2).mT, mild, low.mT]


def key_columns(key: Tensor, sharp: Sharp | None) -> list[Tensor]:
    """[h, −½h², 1, l, −½mild² − h·l − ½l², 1, k]: what meets `query_columns`, ending in [1, k] either way."""
    if sharp is None:
        half = _half_square(key)
        return [half, torch.ones_like(half), key]
    _, high, low, half, rest = _cut(key, sharp)
    one = torch.ones_like(rest)
    return [torch.cat([high, half, one, low, rest, one], -2).mT, key]


def _cut(rows: Tensor, sharp: Sharp) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mild columns (…, N, M); h, l, −½h², and the squares that remain (…, ·, N).

    To the gradient h is a constant.
    """
    n_mild = rows.shape[-1] - sharp.n_columns
    mild, c = rows.narrow(-1, 0, n_mild), rows.narrow(-1, n_mild, sharp.n_columns)
    c = c.mT.contiguous()
    step = sharp.step.unsqueeze(-2)
    high = torch.round(c.detach() / step) * step
    low = c - high
    half = -0.5 * high.square().sum(-2, keepdim=True)
    rest = _half_square(mild).mT - (low * (high + 0.5 * low)).sum(-2, keepdim=True)
    return mild, high, low, half, rest


def _half_square(rows: Tensor) -> Tensor:
    """−½x² of each row: (…, N, 1)."""
    return rows.square() @ rows.new_full((rows.shape[-1], 1), -0.5)
