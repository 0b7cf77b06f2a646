"""Ranks of values within clouds, and stable sorts by tuples (code, value).

The paper packs the tuple (AND codes, base hash value) into one real number T = L + Δ·Σ… and sorts that. In
float32 the sum loses the hash (8 % ties in large batches), so the tuple itself is sorted here.

Axes: N points, B clouds.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hept.attention.clouds import Clouds
from hept.devices.threads import share_out
from hept.devices.tracing import is_exporting

# Below this number of values, starting threads costs more than sorting.
WORTH_A_THREAD = 2**20


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
    # The sort is by cloud first, so each cloud keeps its range of the axis.
    rank = torch.arange(values.shape[-1], device=values.device) - clouds.spread(clouds.offsets)
    return torch.empty_like(order).scatter_(-1, order, rank.expand(order.shape))


def joint_rank_in_cloud(first: Tensor, second: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """Rank two values per point (query and key) jointly, among the 2n values of a cloud: (..., N) twice."""
    n = first.shape[-1]
    index = torch.cat([clouds.index, clouds.index])
    values = torch.cat([first, second], -1)
    order = sort_by(index.expand(values.shape), values, n_codes=clouds.n_clouds)
    begin = 2 * clouds.offsets.take(index.take(order))
    rank = torch.arange(2 * n, device=first.device) - begin
    ranks = torch.empty_like(order).scatter_(-1, order, rank)
    return ranks.narrow(-1, 0, n), ranks.narrow(-1, n, n)


def sort_by(code: Tensor, value: Tensor, *, n_codes: float) -> Tensor:
    """The order of the last axis by the tuple (code, value), stable.

    Args:
        code: (..., N) int64, not negative.
        value: (..., N) floating point.
        n_codes: Upper bound of the codes, exclusive.

    Returns:
        (..., N) int64.
    """
    if not is_exporting() and value.dtype == torch.float32 and n_codes < 2**31:
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
    # The lowest bits of a key hold its position, so keys are unique and the sorted keys contain the order.
    packed = code.contiguous() << 32 + index_bits
    packed.add_(_ascending_bits(value), alpha=2**index_bits).add_(torch.arange(n))
    sort_rows(packed)
    return packed.bitwise_and_(2**index_bits - 1)


def sort_rows(key: Tensor) -> None:
    """Sort contiguous integers (..., N) on a CPU along the last axis, in place."""
    if key.numel() == 0:
        return
    flat = key.view(-1, key.shape[-1])
    try:
        rows = flat.numpy()
    except RuntimeError:
        # torch was built without NumPy.
        key.copy_(torch.sort(key, dim=-1).values)
        return

    def sort_some(pieces: Iterable[int]) -> None:
        for i in pieces:
            # NumPy's sort is vectorised: at most a fifth of the time of torch's.
            rows[i].sort()

    if rows.size < WORTH_A_THREAD:
        sort_some(range(len(rows)))
    else:
        share_out(sort_some, len(rows), key.device)


def _sort_stably(code: Tensor, value: Tensor) -> Tensor:
    """Compute the same as `order_rows`, on any device and for any code below 2³¹."""
    return torch.sort((code << 32).add_(_ascending_bits(value)), dim=-1, stable=True).indices


def _ascending_bits(value: Tensor) -> Tensor:
    """Map float32 to int32 that sort in the same order: the bits, inverted for negative numbers, −0 as 0."""
    bits = value.contiguous().view(torch.int32)
    sign = bits >> 31  # −1 for negative numbers
    return (sign & 0x7FFFFFFF).bitwise_xor_(bits).sub_(sign)


# A custom operator, so that torch.compile does not trace it: its constants depend on the size.
_order_rows = torch.library.custom_op("hept::order_rows", order_rows, mutates_args=())
_order_rows.register_fake(lambda code, _value: torch.empty_like(code))
