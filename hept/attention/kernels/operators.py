"""Block attention as a custom operator of torch: forward and backward functions enter, a back end leaves.

`torch.compile` and fake tensors treat an operator as opaque; its backward pass is a second operator. The
forward pass saves its inputs, the output and the normalisation, nothing of size S×S.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from hept.attention.kernels.operands import Blocks, Layout, Operands


class BlockAttention(Protocol):
    """A back end."""

    def __call__(self, operands: Operands, layout: Layout) -> Tensor:
        """See `hept.attention.kernels.plain.attend_plain`."""
        ...


class Forward(Protocol):
    """Fills the outputs."""

    def __call__(self, operands: Operands, layout: Layout, out: Tensor, total: Tensor) -> None:
        """Fill outputs (H, N, V), stored as (N, H, V), and normalisations (H, N)."""
        ...


class Backward(Protocol):
    """Fills the gradients."""

    def __call__(
        self, operands: Operands, layout: Layout, grad: Tensor, out: Tensor, total: Tensor, into: Operands
    ) -> None:
        """Fill the operands' gradients from the outputs' gradient, the outputs and the normalisations."""
        ...


# Inputs of both operators in torch's schema language, in the order of `unpack`.
INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? coords, "
    "Tensor query_order, Tensor key_order, Tensor position, Tensor is_filled, Tensor slot"
)


def define_attention(name: str, forward: Forward, backward: Backward) -> BlockAttention:
    """Define an operator with its gradient, shape function and FLOP formula.

    Args:
        name: Name of the operator; its backward pass is the operator `{name}_backward`.
        forward: Fills the outputs.
        backward: Fills the gradients.
    """

    def compute_forward(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        operands, layout = unpack(inputs)
        out, total = _shape_forward(*inputs)
        forward(operands, layout, out, total)
        return out, total

    def compute_backward(
        grad: Tensor, out: Tensor, total: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        operands, layout = unpack(inputs)
        into = _shape_backward(grad, out, total, *inputs)
        backward(operands, layout, grad, out, total, Operands(*into))
        return into

    attend = torch.library.custom_op(
        f"hept::{name}", compute_forward, mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor)"
    )
    attend.register_fake(_shape_forward)
    attend_backward = torch.library.custom_op(
        f"hept::{name}_backward",
        compute_backward,
        mutates_args=(),
        schema=f"(Tensor grad, Tensor out, Tensor total, {INPUTS}) -> (Tensor, Tensor, Tensor, Tensor)",
    )
    attend_backward.register_fake(_shape_backward)

    def differentiate(
        ctx: torch.autograd.function.BackwardCFunction, grad: Tensor, _: Tensor
    ) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor | None, ...] = ctx.saved_tensors
        _out, _total, _query, _key, _value, coords, *others = saved
        *d_operands, d_coords = attend_backward(grad, *saved)
        return (*d_operands, d_coords if coords is not None else None, *(None for _ in others))

    attend.register_autograd(differentiate, setup_context=_save)
    register_flop_formula([getattr(torch.ops.hept, name)])(_count_flops)

    def apply(operands: Operands, layout: Layout) -> Tensor:
        blocks = layout.blocks
        inputs = operands.query, operands.key, operands.value, operands.coords
        orders = layout.query_order, layout.key_order
        out: Tensor = attend(*inputs, *orders, blocks.position, blocks.is_filled, blocks.slot)[0]
        return out

    return apply


def unpack(inputs: tuple[Tensor, ...]) -> tuple[Operands, Layout]:
    """Group the flat arguments of an operator."""
    query, key, value, coords, query_order, key_order, *blocks = inputs
    return Operands(query, key, value, coords), Layout(query_order, key_order, Blocks(*blocks))


def _shape_forward(_query: Tensor, _key: Tensor, value: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    # The heads of a point are contiguous, as the following linear layer needs them.
    by_point = value.new_empty(value.shape[1], value.shape[0], value.shape[2])
    return by_point.movedim(1, 0), value.new_empty(value.shape[:2])


def _shape_backward(
    _grad: Tensor,
    _out: Tensor,
    _total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    coords: Tensor | None,
    *_: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    # With the strides of the operands.
    d_coords = query.new_empty(0) if coords is None else torch.empty_like(coords)
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), d_coords


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]
) -> None:
    ctx.save_for_backward(*output, *inputs)


def _count_flops(
    query: torch.Size,
    _key: torch.Size,
    value: torch.Size,
    coords: torch.Size | None,
    query_order: torch.Size,
    _key_order: torch.Size,
    position: torch.Size,
    *_: object,
    **__: object,
) -> int:
    """FLOPs for torch's counter, two per multiply-add: S² products of M+P and of V columns per block."""
    n_tables, n_heads, _n = query_order
    n_blocks, size = position
    dim = query[-1] + (coords[-2] if coords is not None else 0)
    return int(2 * n_tables * n_heads * n_blocks * size**2 * (dim + value[-1]))
