"""Block attention on a GPU by Triton: launches the kernels of `hept.attention.triton_blocks`.

Axes: N points, H heads, V dimensions of a value, P of a place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hept.attention.eager import EPSILON
from hept.attention.operators import define_attention
from hept.attention.rows import Layout, Rows
from hept.attention.triton_launch import (
    BACKWARD_KEY,
    BACKWARD_QUERY,
    FORWARD,
    START,
    Launch,
    Sizes,
    find_grid,
    pad,
)
from hept.attention.triton_traffic import count_backward, count_forward
from hept.triton_devices import can_run, has_triton, launch_beside


def can_attend(rows: Rows) -> bool:
    """Whether Triton makes kernels for such rows on their device."""
    return can_run(rows.query, rows.key, rows.value, rows.place)


def attend_triton(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, in one fused kernel; the same arguments and result.

    Args:
        rows: Queries, keys and values of the points, float32 on a GPU.
        layout: Which of them share a block. Its orders must be permutations of the points, unchecked.

    Raises:
        ValueError: Where Triton has no kernel for such rows.
    """
    if not can_attend(rows):
        found = "no Triton" if not has_triton() else "kernels for float32 on a GPU of capability 8.0 or newer"
        raise ValueError(
            f"backend 'triton': found {found}, got {rows.query.dtype} on {rows.query.device.type}; "
            "choose 'auto', or install a build of torch for GPUs"
        )
    return _attend(rows, layout)


def compute_forward(rows: Rows, layout: Layout, out: Tensor, total: Tensor) -> None:
    """Fill outputs (H, N, V), in memory (N, H, V), and normalisations (H, N)."""
    from hept.attention import triton_blocks as kernels

    n_points, inputs = rows.query.shape[1], _lay_out(rows, layout)
    run = prepare(kernels.attend, FORWARD, rows, layout)
    for table in range(layout.n_tables):
        run(*inputs, out, total, table, layout.n_tables, n_points, EPSILON)


def compute_backward(
    rows: Rows, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Rows
) -> None:
    """Fill the gradients of queries, keys, values and places from that of the outputs."""
    from hept.attention import triton_blocks as kernels

    n_heads, n_points, n_values = rows.value.shape
    inputs = _lay_out(rows, layout)
    d_sums, d_total = grad.new_empty(rows.value.shape), torch.empty_like(total)
    by_point = (each.movedim(0, 1).contiguous() for each in (grad, out))
    constants = {"H": n_heads, "V": n_values, "R": START.rows, "VP": pad(n_values)}
    kernels.start_backward[-(-n_points // START.rows), n_heads](
        *by_point, total, d_sums, d_total, n_points, **constants, **START.options()
    )
    d_place = torch.empty_like(inputs[3])
    run_query = prepare(kernels.backward_query, BACKWARD_QUERY, rows, layout)
    run_key = prepare(kernels.backward_key, BACKWARD_KEY, rows, layout)
    for table in range(layout.n_tables):
        # The second adds to the gradient of places that the first has left.
        run_query(*inputs, d_sums, d_total, into.query, d_place, table, n_points)
        run_key(*inputs, d_sums, d_total, into.key, into.value, d_place, table, n_points)
    if rows.place is not None and into.place is not None:
        into.place.copy_(d_place.mT)


def _lay_out(rows: Rows, layout: Layout) -> list[Tensor]:
    """The first arguments of the kernels."""
    blocks = layout.blocks
    # Coordinates of a point side by side are one access to memory, not P.
    place = rows.place.mT if rows.place is not None else rows.query
    orders = layout.query_order, layout.key_order
    tensors = rows.query, rows.key, rows.value, place, *orders, blocks.position, blocks.is_filled
    return [each.contiguous() for each in tensors]


def prepare(kernel: Any, launch: Launch, rows: Rows, layout: Layout) -> Callable[..., None]:
    """A function of the remaining arguments that launches the kernel over the blocks of all heads."""
    sizes = Sizes.of(rows, layout)
    constants = sizes.constants(launch) | {"WIDE": sizes.needs_64_bits(rows.query.shape[1])}
    options = {name: value for name, value in constants.items() if name in kernel.arg_names}
    options |= launch.options()
    return partial(kernel[find_grid(sizes, layout.blocks.position.shape[0], launch)], **options)


def _on_device(compute: Callable[..., None]) -> Callable[..., None]:
    """The same, launched on the device of the rows."""

    def run(rows: Rows, *others: Any) -> None:
        with launch_beside(rows.query):
            compute(rows, *others)

    return run


_attend = define_attention(
    "triton_attention",
    _on_device(compute_forward),
    _on_device(compute_backward),
    traffic=(count_forward, count_backward),
)
