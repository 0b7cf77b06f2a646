"""Steps of OR & AND hashing (paper, Sec. 4.2): bucket numbers, quantile buckets, and sorting by tuples.

The paper packs the tuple (AND codes, base hash value) into one real number T = L + Δ·Σ… and sorts that. In
float32 the sum loses the hash (8 % ties in large batches), so the tuple itself is sorted here.

Axes: N points, B clouds, H heads, C tables, A AND codes.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hept.attention.clouds import Clouds
from hept.threads import share_out

# Fewer numbers are sorted sooner than threads are started.
WORTH_A_THREAD = 2**20


def draw_buckets(n_regions: float, n_codes: int, n_tables: int, n_heads: int) -> Tensor:
    """Random numbers of buckets B, not integer, whose product over the codes is `n_regions`.

    Different numbers shift the borders of the buckets from table to table, so that no pair of close points is
    parted by all tables (paper, end of "Obtaining AND Hash Code").

    Returns:
        (C, A, H).
    """
    shape = (n_tables, n_codes, n_heads)
    if n_codes == 0:
        return torch.ones(shape)
    mean = n_regions ** (1 / n_codes)
    low = min(2.0, mean)
    buckets = low + torch.rand(shape) * 2 * (mean - low)
    excess = buckets.prod(1, keepdim=True) / n_regions
    return torch.div(buckets, excess ** (1 / n_codes))


def rank_in_cloud(values: Tensor, clouds: Clouds) -> Tensor:
    """The rank of each value in its cloud, from 0; equal values rank in order of appearance.

    Args:
        values: (..., N).
        clouds: The clouds of the N points.

    Returns:
        (..., N) int64.
    """
    index = clouds.index.expand(values.shape)
    order = sort_by(index, values, n_codes=clouds.n_clouds)
    # Sorted by cloud first, each cloud stays on its own stretch of the axis.
    rank = torch.arange(values.shape[-1], device=values.device) - clouds.spread(clouds.offsets)
    return torch.empty_like(order).scatter_(-1, order, rank.expand(order.shape))


def joint_rank_in_cloud(first: Tensor, second: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """Ranks of two values a point (query and key) in one sequence of 2n for a cloud: (..., N) twice."""
    n = first.shape[-1]
    index = torch.cat([clouds.index, clouds.index])
    values = torch.cat([first, second], -1)
    order = sort_by(index.expand(values.shape), values, n_codes=clouds.n_clouds)
    begin = 2 * clouds.offsets.take(index.take(order))
    rank = torch.arange(2 * n, device=first.device) - begin
    ranks = torch.empty_like(order).scatter_(-1, order, rank)
    return ranks.narrow(-1, 0, n), ranks.narrow(-1, n, n)


def rotate_rank(rank: Tensor, turn: Tensor, cut: Tensor, clouds: Clouds) -> Tensor:
    """Ranks on a circle that is cut open elsewhere than at 0.

    Args:
        rank: (N,) rank of each point's turn in its cloud.
        turn: (N,) place on the circle, in [0, 1).
        cut: (C, H) where to begin counting, in [0, 1).
        clouds: The clouds of the N points.

    Returns:
        (C, H, N) int64.
    """
    n_before = count_before(turn, cut, clouds)
    return torch.remainder(rank - clouds.spread(n_before), clouds.spread(clouds.sizes))


def count_before(turn: Tensor, cut: Tensor, clouds: Clouds) -> Tensor:
    """How many points of each cloud lie before the cuts (C, H), of those at `turn` (N,): (C, H, B) int64."""
    is_before = (turn < cut.unsqueeze(-1)).long()  # (C, H, N)
    n_before = is_before.new_zeros(*cut.shape, clouds.n_clouds)
    return n_before.scatter_add_(-1, clouds.index.expand(is_before.shape), is_before)


def bucket_of_rank(rank: Tensor, n_ranks: Tensor, buckets: Tensor, clouds: Clouds) -> Tensor:
    """Quantile bucket ⌊rank / ⌈n/B⌉⌋ of each point, below ⌊B⌋ + 1.

    Args:
        rank: (C, H, N) or (N,), rank of the point in its cloud.
        n_ranks: (n_clouds,) how many are ranked in each cloud.
        buckets: (C, H) numbers of buckets.
        clouds: The clouds of the N points.

    Returns:
        (C, H, N) int64.
    """
    # The published weights were trained with sizes of float32, by multiplication: ⌈n · (1/B)⌉.
    per_bucket = torch.ceil(n_ranks.float() * buckets.float().reciprocal().unsqueeze(-1))  # (C, H, n_clouds)
    if rank.device.type != "cpu":
        return rank // clouds.spread(per_bucket.long().clamp(min=1))
    # A CPU divides integers ten times slower; from the middle between two ranks no rounding reaches a border.
    per_rank = clouds.spread(per_bucket.double().clamp(min=1).reciprocal())
    return ((rank.double() + 0.5) * per_rank).long()


def sort_by(code: Tensor, value: Tensor, *, n_codes: float) -> Tensor:
    """The order of the last axis by the tuple (code, value), stable.

    Args:
        code: (..., N) int64, not negative.
        value: (..., N) floating point.
        n_codes: What the codes stay below.

    Returns:
        (..., N) int64.
    """
    if value.dtype == torch.float32 and n_codes < 2**31:
        if value.device.type == "cpu":
            order: Tensor = _order_rows(code, value)
            return order
        return _sort_stably(code, value)
    order = torch.sort(value, dim=-1, stable=True).indices
    by_code = torch.sort(code.expand(value.shape).gather(-1, order), dim=-1, stable=True).indices
    return order.gather(-1, by_code)


def order_rows(code: Tensor, value: Tensor) -> Tensor:
    """The stable order of the last axis by the tuple (code, value), float32 on a CPU: (..., N) int64."""
    n = value.shape[-1]
    index_bits = max(n - 1, 0).bit_length()
    code_bits = int(code.max()).bit_length() if code.numel() else 0
    if code_bits + 32 + index_bits > 63:
        return _sort_stably(code, value)
    # With the place in its lowest bits a key needs no index beside it, and no two are equal.
    packed = code.contiguous() << 32 + index_bits
    packed.add_(_ascending_bits(value), alpha=2**index_bits).add_(torch.arange(n))
    sort_rows(packed)
    return packed.bitwise_and_(2**index_bits - 1)


def sort_rows(key: Tensor) -> None:
    """Sort integers (..., N) that are contiguous on a CPU along the last axis, in place."""
    if key.numel() == 0:
        return
    flat = key.view(-1, key.shape[-1])
    try:
        rows = flat.numpy()
    except RuntimeError:
        # This torch was installed without NumPy.
        key.copy_(torch.sort(key, dim=-1).values)
        return

    def sort_some(pieces: Iterable[int]) -> None:
        for i in pieces:
            # Vectorised, which torch's own sort is not: a fifth of its time and less.
            rows[i].sort()

    if rows.size < WORTH_A_THREAD:
        sort_some(range(len(rows)))
    else:
        share_out(sort_some, len(rows), key.device)


def _sort_stably(code: Tensor, value: Tensor) -> Tensor:
    """What `order_rows` returns, on any device and for any code below 2³¹."""
    return torch.sort((code << 32).add_(_ascending_bits(value)), dim=-1, stable=True).indices


def _ascending_bits(value: Tensor) -> Tensor:
    """Integers (int32) that ascend with the numbers (float32): their bits, of negative ones turned round."""
    bits = value.contiguous().view(torch.int32)
    return (bits >> 31).bitwise_and_(0x7FFFFFFF).bitwise_xor_(bits)


# An operator of torch, so that a compiled model does not look inside, where numbers depend on the size.
_order_rows = torch.library.custom_op("hept::order_rows", order_rows, mutates_args=())
_order_rows.register_fake(lambda code, _value: torch.empty_like(code))
