"""Launches and bytes of block attention by Triton: arguments of its operators enter, `Traffic` leaves.

Axes: H heads, M dimensions of a query, V of a value, P of a place.
"""

from __future__ import annotations

from torch import Tensor

from hept.attention.operators import unpack
from hept.attention.rows import Layout, Rows
from hept.attention.triton_launch import Sizes
from hept.traffic import Traffic


def count_forward(*inputs: Tensor) -> Traffic:
    """Launches and bytes of the forward pass; see `count_rows` for what is counted."""
    rows, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(rows, layout), layout.n_tables
    row = count_rows(sizes, layout, mine=sizes.M + sizes.P, others=sizes.M + sizes.V + sizes.P)
    left = sizes.V + 1
    moved = n_tables * (row + _count_numbers(rows, left)) + (n_tables - 1) * _count_numbers(rows, left)
    return Traffic(n_tables, moved) + (
        _count_copy(rows.place.mT) if rows.place is not None else Traffic(0, 0)
    )


def count_backward(grad: Tensor, out: Tensor, _total: Tensor, *inputs: Tensor) -> Traffic:
    """Launches and bytes of the backward pass."""
    rows, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(rows, layout), layout.n_tables
    m, v, p = sizes.M, sizes.V, sizes.P
    by_query = count_rows(sizes, layout, mine=m + p + v + 1, others=m + v + p)
    by_key = count_rows(sizes, layout, mine=m + p + v, others=m + p + v + 1)
    # Written by every table, and read by all but those that find nothing: places have been there by then.
    left = _count_numbers(rows, m + p + m + v + p)
    found = n_tables * left - _count_numbers(rows, m + p + m + v)
    start = _count_numbers(rows, 3 * v + 2)
    traffic = Traffic(1 + 2 * n_tables, start + n_tables * (by_query + by_key + left) + found)
    traffic += _count_copy(grad.movedim(0, 1)) + _count_copy(out.movedim(0, 1))
    if rows.place is not None:
        traffic += _count_copy(rows.place.mT) + Traffic(1, 2 * _count_numbers(rows, p))
    return traffic


def count_rows(sizes: Sizes, layout: Layout, *, mine: int, others: int) -> int:
    """Bytes that the programs of one table read of their rows and of those on the other side of the block.

    The programs of a block run side by side, and read each of its numbers once: what they need again is in a
    cache.

    Args:
        sizes: Sizes of the attention.
        layout: Blocks and orders.
        mine: Numbers of a row of a program's own.
        others: Numbers of a row on the other side.
    """
    # Which slots are filled, their positions, the points at both sides, and their rows.
    per_point = 8 + 2 * 4 + 4 * (mine + others)
    return sizes.H * (layout.blocks.is_filled.numel() + layout.query_order.shape[-1] * per_point)


def _count_numbers(rows: Rows, width: int) -> int:
    """Bytes of so many numbers for each point and head."""
    return rows.query.shape[0] * rows.query.shape[1] * width * 4


def _count_copy(wanted: Tensor) -> Traffic:
    """The copy of a tensor whose memory is not in the order that kernels want."""
    if wanted.is_contiguous():
        return Traffic(0, 0)
    return Traffic(1, 2 * wanted.numel() * wanted.element_size())
