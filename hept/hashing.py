"""OR & AND locality-sensitive hashing (paper, Sec. 4.2): points enter, the order in which to cut them leaves.

Each of C tables orders the points of a cloud by the tuple (AND codes, base hash value): E²LSH projections a·x without
buckets for the base, quantile buckets of coordinates or of further projections for the AND codes. The paper packs the
tuple into one real number T = L + Δ·Σ…; here it is sorted as a tuple, because the sum loses the hash in float32.

Axes: N points, B clouds, H heads, C tables, D dimensions, A AND codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hept.clouds import Clouds


def draw_buckets(n_regions: float, n_codes: int, n_tables: int, n_heads: int) -> Tensor:
    """Random, non-integer numbers of buckets B, whose product over the codes is `n_regions` in each table and head.

    Different numbers shift the borders of the buckets from table to table, so that no pair of close points is
    parted by all tables (paper, end of "Obtaining AND Hash Code").

    Returns:
        (C, A, H) float32.
    """
    shape = (n_tables, n_codes, n_heads)
    if n_codes == 0:
        return torch.ones(shape)
    mean = n_regions ** (1 / n_codes)
    low = min(2.0, mean)
    buckets = low + torch.rand(shape) * 2 * (mean - low)
    return buckets * (n_regions / buckets.prod(1, keepdim=True)) ** (1 / n_codes)


def rank_in_cloud(values: Tensor, clouds: Clouds) -> Tensor:
    """The rank of each point's value in its cloud, from 0; equal values rank in order of appearance.

    Args:
        values: (..., N).
        clouds: The clouds of the N points.

    Returns:
        (..., N) int64.
    """
    order = sort_by(clouds.index.expand(values.shape), values)
    positions = torch.arange(values.shape[-1], device=values.device) - clouds.offsets[clouds.index]
    # Sorting by cloud first leaves each cloud on its own stretch of the axis.
    return torch.empty_like(order).scatter_(-1, order, positions.expand(order.shape))


def bucket_of_rank(rank: Tensor, n_in_cloud: Tensor, buckets: Tensor, clouds: Clouds) -> Tensor:
    """Quantile bucket ⌊rank / ⌈n/B⌉⌋ of each point.

    Args:
        rank: (C, H, N) or broadcastable, rank of the point in its cloud.
        n_in_cloud: (B,) ranked values in each cloud.
        buckets: (C, H) numbers of buckets, not integer.
        clouds: The clouds of the N points.

    Returns:
        (C, H, N) int64.
    """
    # The published weights were trained with float32 sizes, by multiplication: ⌈n · (1/B)⌉.
    per_bucket = torch.ceil(n_in_cloud.float() * buckets.float().reciprocal()[..., None])  # (C, H, B)
    size = per_bucket.long().clamp(min=1)[..., clouds.index]  # (C, H, N)
    return rank // size


def join_codes(codes: list[Tensor], n_buckets: list[int], clouds: Clouds) -> Tensor:
    """One integer for the tuple (cloud, last code, …, first code): (C, H, N) int64 from as many codes each."""
    joined = clouds.index
    for code, n in zip(reversed(codes), reversed(n_buckets), strict=True):
        joined = joined * n + code
    return joined


def sort_by(code: Tensor, value: Tensor) -> Tensor:
    """The order of the last axis by the tuple (code, value).

    Args:
        code: (..., N) int64, not negative and below 2³¹.
        value: (..., N) floating point.

    Returns:
        (..., N) int64, stable.
    """
    if value.dtype == torch.float32:
        bits = value.view(torch.int32)
        # As integers, floats ascend with their bits; negative ones descend and are turned round.
        ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        key = (code << 32) + ascending.long()
        return torch.sort(key, dim=-1, stable=True).indices
    order = torch.sort(value, dim=-1, stable=True).indices
    by_code = torch.sort(code.expand(value.shape).gather(-1, order), dim=-1, stable=True).indices
    return order.gather(-1, by_code)
