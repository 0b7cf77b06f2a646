"""−½‖q−k‖² as one matrix product that does not cancel: queries, keys and places enter, their columns leave.

    −½‖q−k‖² = q·k − ½q² − ½k²

In float32 the three terms of the places, c = √(2ω)ρ, lose the difference: with trained ω by up to 0.6. Places
are therefore cut in two on a grid of step δ, c = h + l, h = δ·round(c/δ):

    h_q·h_k − ½h_q² − ½h_k²         whole multiples of ½δ², fewer than 2²⁴: exact
    h_q·l_k + l_q·c_k − …           a thousandth of that, so is its rounding

The exact terms come first, so that their sum is as small as the result when the others are added. Places o
that stay close to 0 need no grid; with trained ω a head has one to three of six coordinates that do.

Axes: N points, B clouds, H heads, M dimensions of a query, P of a place, W columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hept.attention.clouds import Clouds

# Steps δ beyond which float32 is no longer good enough: the logit is then off by 0.04 and more.
LARGEST_STEP = 8.0
# Steps up to which no grid is needed: the plain product is then off by 0.0003 in the mean, 0.003 at most.
NEGLIGIBLE_STEP = 2.0**-5


def reach_of_clouds(place: Tensor, clouds: Clouds) -> Tensor:
    """How far the coordinates (N, P) of each cloud reach from 0: (B, P)."""
    if clouds.n_clouds == 1:
        return place.abs().amax(0, keepdim=True)
    index = clouds.index.unsqueeze(1).expand(place.shape)
    return place.new_zeros(clouds.n_clouds, place.shape[1]).scatter_reduce(0, index, place.abs(), "amax")


def is_negligible(reach: float, n_columns: int) -> bool:
    """Whether a place that reaches so far from 0 needs no grid."""
    return reach <= NEGLIGIBLE_STEP * _count_steps(n_columns)


def choose_step(reach: Tensor, n_columns: int, clouds: Clouds) -> Tensor:
    """Step of the grid for clouds whose places of so many columns reach so far from 0 (H, B).

    Returns:
        (H, N) δ of the point's cloud, a power of two; (H, 1) for a single cloud.
    """
    exponent = (reach.float().clamp(min=1e-30) / _count_steps(n_columns)).log2().ceil()
    step = exponent.exp2()
    return step if clouds.n_clouds == 1 else clouds.spread(step)


@dataclass(frozen=True)
class Selection:
    """Which parts make the columns of queries and of keys whose product is −½‖q−k‖².

        q: h, 1, −½h², h, 1, −½q² − h·l − ½l² − ½o², l, o, q
        k: h, −½h², 1, l, −½k² − h·l − ½l² − ½o², 1, c, o, k

    with c = h + l on the grid and o beside it. Where nothing is sharp, [1, −½q² − ½o², o, q] and
    [−½k² − ½o², 1, o, k] are left. All but the query and the key themselves are copies and sums of a few
    parts, so that a product lays them out: `parts.mT @ of_query`. Those of keys end in [1, c, o, k].

    Attributes:
        of_query: (R, columns) of zeros and ones.
        of_key: The same for keys.
        of_place: (R, P+1), the same for [c, o, 1].
    """

    of_query: Tensor
    of_key: Tensor
    of_place: Tensor


def logit_parts(
    query: Tensor, key: Tensor, place: Tensor | None, step: Tensor | None, n_sharp: int | None = None
) -> Tensor:
    """[h, l, o, −½h², −h·l − ½l² − ½o², −½q², −½k², 1], without a grid [o, −½o², −½q², −½k², 1]: (…, R, N).

    Args:
        query: (…, N, M).
        key: (…, N, M).
        place: (…, P, N).
        step: (…, N) or (…, 1), of the grid; without it there is none.
        n_sharp: How many of the P places, the first ones, need the grid; all of them if not said.
    """
    # Points last: parts are computed as stretches of memory, which is several times faster.
    q_half, k_half = _half_square(query), _half_square(key)
    if place is None:
        parts = [torch.zeros_like(q_half)]
    elif step is None:
        parts = [place, -0.5 * place.square().sum(-2, keepdim=True)]
    else:
        n_sharp = place.shape[-2] if n_sharp is None else n_sharp
        sharp, other = place.tensor_split([n_sharp], -2)
        step = step.unsqueeze(-2)
        # To the gradient h is a constant.
        high = (sharp.detach() / step).round_().mul_(step)
        low = sharp - high
        rest = (low * (high + 0.5 * low)).sum(-2, keepdim=True).neg()
        if n_sharp < place.shape[-2]:
            rest = rest - 0.5 * other.square().sum(-2, keepdim=True)
        parts = [high, low, other, -0.5 * high.square().sum(-2, keepdim=True), rest]
    return torch.cat([*parts, q_half, k_half, torch.ones_like(q_half)], -2)


def select_columns(n_places: int, *, n_sharp: int, like: Tensor) -> Selection:
    """The selection for places of so many dimensions, on the device and in the precision of `like`."""
    n_parts = n_places + (n_sharp + 5 if n_sharp else 4)
    eye = torch.eye(n_parts, dtype=like.dtype, device=like.device)
    if n_sharp:
        parts = torch.split(eye, [n_sharp, n_sharp, n_places - n_sharp, 1, 1, 1, 1, 1], 1)
        high, low, other, half, rest, q_half, k_half, one = parts
        place = torch.cat([high + low, other], 1)
        of_query = [high, one, half, high, one, rest + q_half, low, other]
        of_key = [high, half, one, low, rest + k_half, one, place]
    else:
        place, rest, q_half, k_half, one = torch.split(eye, [n_places, 1, 1, 1, 1], 1)
        of_query, of_key = [one, rest + q_half, place], [rest + k_half, one, place]
    return Selection(torch.cat(of_query, 1), torch.cat(of_key, 1), torch.cat([place, one], 1))


def _count_steps(n_columns: int) -> float:
    """How many steps a place may reach: partial sums must stay below 2²⁴ halves of δ²."""
    return math.sqrt(2**24 / (2 * n_columns))


def _half_square(rows: Tensor) -> Tensor:
    """−½x² of each row: (…, 1, N)."""
    return (rows.square() @ rows.new_full((rows.shape[-1], 1), -0.5)).mT
