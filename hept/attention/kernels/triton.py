"""Block attention on a GPU by Triton: launches the kernels of `triton_blocks` and `triton_backward`.

Axes: N points, H heads, V dimensions of a value, P coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.operators import define_attention
from hept.attention.kernels.plain import EPSILON
from hept.attention.kernels.triton_launch import BACKWARD, FORWARD, START, Launch, Sizes, find_grid, pad
from hept.devices.triton_support import can_run_triton, find_capability, has_triton, launch_beside


def can_attend(operands: Operands) -> bool:
    """Whether Triton supports these operands on their device."""
    return can_run_triton(operands.query, operands.key, operands.value, operands.coords)


def attend_triton(operands: Operands, layout: Layout) -> Tensor:
    """Compute `attend_plain` in fused kernels; same arguments, same result.

    Args:
        operands: Queries, keys and values of the points, float32 on a GPU.
        layout: Which of them share a block. Its orders must be permutations of the points (not checked).

    Raises:
        ValueError: Triton does not support these operands.
    """
    if not can_attend(operands):
        found = "no Triton" if not has_triton() else "kernels for float32 on a GPU of capability 8.0 or newer"
        raise ValueError(
            f"backend 'triton': found {found}, got {operands.query.dtype} on {operands.query.device.type}; "
            "choose 'auto', or install a build of torch for GPUs"
        )
    return _attend(arrange(operands), layout)


def arrange(operands: Operands) -> Operands:
    """The same operands in the memory layout of the kernels, which read and write whole rows.

    The heads of a point are contiguous, as a linear layer writes and reads them.
    """
    rows = (each.movedim(0, 1).contiguous() for each in (operands.query, operands.key, operands.value))
    query, key, value = (each.movedim(1, 0) for each in rows)
    coords = operands.coords.movedim(2, 0).contiguous().movedim(0, 2) if operands.coords is not None else None
    return Operands(query, key, value, coords)


def compute_forward(operands: Operands, layout: Layout, out: Tensor, total: Tensor) -> None:
    """Fill outputs (H, N, V), stored as (N, H, V), and normalisations (H, N)."""
    from hept.attention.kernels import triton_blocks as kernels

    n_points, inputs = operands.query.shape[1], _lay_out(operands, layout)
    run = prepare(kernels.attend, FORWARD, operands, layout)
    for table in range(layout.n_tables):
        run(*inputs, out, total, table, layout.n_tables, n_points, EPSILON)


def compute_backward(
    operands: Operands, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Operands
) -> None:
    """Fill the gradients of queries, keys, values and coordinates from the outputs' gradient."""
    from hept.attention.kernels import triton_backward as kernels

    n_heads, n_points, n_values = operands.value.shape
    d_total = torch.empty_like(total)
    # A gradient may arrive as an expanded tensor.
    by_point = grad.movedim(0, 1).contiguous()
    constants = {"H": n_heads, "V": n_values, "R": START.rows, "VP": pad(n_values)}
    kernels.start_backward[-(-n_points // START.rows), n_heads](
        by_point, out, total, d_total, n_points, **constants, **START.options()
    )
    # Those of queries and of keys are added at the end: two programs must not add to the same row.
    d_coords = grad.new_empty(2, n_points, n_heads, operands.n_coords)
    run = prepare(kernels.backward, BACKWARD, operands, layout)
    inputs = *_lay_out(operands, layout), by_point, total, d_total
    for table in range(layout.n_tables):
        run(*inputs, into.query, into.key, into.value, d_coords, table, n_points)
    if operands.coords is not None and into.coords is not None:
        torch.add(*d_coords, out=into.coords.movedim(2, 0))


def _lay_out(operands: Operands, layout: Layout) -> list[Tensor]:
    """The first arguments of the kernels."""
    blocks = layout.blocks
    coords = operands.coords if operands.coords is not None else operands.query
    tensors = layout.query_order, layout.key_order, blocks.position, blocks.is_filled
    return [operands.query, operands.key, operands.value, coords, *(each.contiguous() for each in tensors)]


def prepare(kernel: Any, launch: Launch, operands: Operands, layout: Layout) -> Callable[..., None]:
    """Bind sizes and options; the result takes the other arguments and launches the kernel on all blocks."""
    sizes = Sizes.of(operands, layout)
    capability = find_capability(operands.query.device)
    constants = sizes.constants(launch, capability) | {"WIDE": sizes.needs_64_bits(operands.query.shape[1])}
    options = {name: value for name, value in constants.items() if name in kernel.arg_names}
    options |= launch.options()
    return partial(kernel[find_grid(sizes, layout.blocks.position.shape[0], launch)], **options)


def _on_device(compute: Callable[..., None]) -> Callable[..., None]:
    """Wrap `compute` so that it launches on the device of the operands."""

    def run(operands: Operands, *others: Any) -> None:
        with launch_beside(operands.query):
            compute(operands, *others)

    return run


_attend = define_attention("triton_attention", _on_device(compute_forward), _on_device(compute_backward))
