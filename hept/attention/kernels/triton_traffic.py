"""Launches and bytes of Triton's block attention: arguments of its operators enter, `Traffic` leaves.

Axes: H heads, M dimensions of a query, V of a value, P coordinates.
"""

from __future__ import annotations

from torch import Tensor

from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.operators import unpack
from hept.attention.kernels.triton_launch import Sizes
from hept.devices.traffic import Traffic


def count_forward(*inputs: Tensor) -> Traffic:
    """Launches and bytes of the forward pass; see `count_rows` for what is counted."""
    operands, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(operands, layout), layout.n_tables
    row = count_rows(sizes, layout, mine=sizes.M + sizes.P, others=sizes.M + sizes.V + sizes.P)
    left = sizes.V + 1
    moved = n_tables * (row + _count_numbers(operands, left)) + (n_tables - 1) * _count_numbers(
        operands, left
    )
    return Traffic(n_tables, moved)


def count_backward(grad: Tensor, _out: Tensor, _total: Tensor, *inputs: Tensor) -> Traffic:
    """Launches and bytes of the backward pass."""
    operands, layout = unpack(inputs)
    sizes, n_tables = Sizes.of(operands, layout), layout.n_tables
    m, v, p = sizes.M, sizes.V, sizes.P
    # Queries with the gradient, its normalisation and that of the normalisation; keys and values.
    read = count_rows(sizes, layout, mine=m + p + v + 2, others=m + v + p)
    # Every table writes all gradients, and reads first what the table before has written.
    left = _count_numbers(operands, m + p + m + v + p)
    start = _count_numbers(operands, 2 * v + 2)
    traffic = Traffic(1 + n_tables, start + n_tables * (read + left) + (n_tables - 1) * left)
    traffic += _count_copy(grad.movedim(0, 1))
    if operands.coords is not None:
        traffic += Traffic(1, _count_numbers(operands, 3 * p))
    return traffic


def count_rows(sizes: Sizes, layout: Layout, *, mine: int, others: int) -> int:
    """Bytes that the programs of one table read: their own rows and those on the other side of the block.

    The programs of a block run concurrently: each number is read from memory once; further reads are cached.

    Args:
        sizes: Sizes of the attention.
        layout: Blocks and orders.
        mine: Numbers per row that a program owns.
        others: Numbers per row on the other side.
    """
    orders = layout.query_order.element_size() + layout.key_order.element_size()
    # The first position of each block and `is_filled`; orders and operands of both sides.
    of_blocks = 8 * len(layout.blocks.position) + layout.blocks.is_filled.numel()
    return sizes.H * (of_blocks + layout.query_order.shape[-1] * (orders + 4 * (mine + others)))


def _count_numbers(operands: Operands, width: int) -> int:
    """Bytes of `width` numbers for each point and head."""
    return operands.query.shape[0] * operands.query.shape[1] * width * 4


def _count_copy(wanted: Tensor) -> Traffic:
    """Traffic of the copy that makes a tensor contiguous, if it is not."""
    if wanted.is_contiguous():
        return Traffic(0, 0)
    return Traffic(1, 2 * wanted.numel() * wanted.element_size())
