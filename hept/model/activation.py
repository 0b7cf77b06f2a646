"""tanh(layer norm(W x + b)): in torch, and on a GPU with everything after the product in one Triton kernel.

Axes: N points, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from hept.devices.triton_support import can_run_triton, launch_beside

# Rows that a program holds in registers at a time, and how many times it does so.
ROWS, STEPS = 8, 8
OPTIONS = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": True}


def apply_normed(linear: nn.Linear, norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """tanh(norm(linear(x)))."""
    if x.device.type != "cpu" and can_run_triton(linear.weight):
        # Under autocast the product is in half precision, and what follows in float32, as in torch.
        h = functional.linear(x, linear.weight)
        out: Tensor = activate(h, linear.bias, norm.weight, norm.bias, norm.eps)
        return out
    # In-place tanh: the preceding layer norm does not need its output for backward.
    return norm(linear(x)).tanh_()  # type: ignore[no-any-return]


def find_constants(dim: int) -> dict[str, int]:
    """Sizes that the kernels are compiled for."""
    return {"D": dim, "DP": 1 << max(dim - 1, 0).bit_length(), "R": ROWS, "STEPS": STEPS}


def _compute(x: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    from hept.model.triton_activation import activate as kernel

    n_points, dim = x.shape
    out = _shape(x)
    inputs = [each.contiguous() for each in (x, bias, gamma, beta)]
    with launch_beside(x):
        kernel[count_programs(x),](*inputs, out, n_points, epsilon, **find_constants(dim), **OPTIONS)
    return out


def _shape(x: Tensor, *_: object) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.float32)


activate = torch.library.custom_op(
    "hept::triton_norm_tanh",
    _compute,
    mutates_args=(),
    schema="(Tensor x, Tensor bias, Tensor gamma, Tensor beta, float epsilon) -> Tensor",
)
activate.register_fake(_shape)


def _compute_backward(
    grad: Tensor, x: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    from hept.model.triton_activation import backward as kernel

    n_points, dim = x.shape
    d_x, sums = _shape_backward(grad, x)
    inputs = [each.contiguous() for each in (x, bias, gamma, beta, grad)]
    with launch_beside(x):
        kernel[len(sums),](*inputs, d_x, sums, n_points, epsilon, **find_constants(dim), **OPTIONS)
    return d_x, sums


def _shape_backward(_grad: Tensor, x: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(count_programs(x), 3, x.shape[1], dtype=torch.float32)


_backward = torch.library.custom_op(
    "hept::triton_norm_tanh_backward",
    _compute_backward,
    mutates_args=(),
    schema=(
        "(Tensor grad, Tensor x, Tensor bias, Tensor gamma, Tensor beta, float epsilon) -> (Tensor, Tensor)"
    ),
)
_backward.register_fake(_shape_backward)


def _save(
    ctx: torch.autograd.function.FunctionCtx,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, float],
    output: Tensor,  # noqa: ARG001 - torch passes it by name
) -> None:
    *tensors, ctx.epsilon = inputs  # type: ignore[attr-defined]
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: torch.autograd.function.BackwardCFunction, grad: Tensor) -> tuple[Tensor | None, ...]:
    d_x, sums = _backward(grad, *ctx.saved_tensors, ctx.epsilon)  # type: ignore[attr-defined]
    d_gamma, d_beta, d_bias = sums.sum(0).unbind()
    return d_x, d_bias, d_gamma, d_beta, None


activate.register_autograd(_differentiate, setup_context=_save)


def count_programs(x: Tensor) -> int:
    """Programs of a launch for (N, D) rows."""
    return -(-x.shape[0] // (ROWS * STEPS))
