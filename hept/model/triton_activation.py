"""tanh of a layer norm as Triton kernels: rows enter, activations leave; and the gradients.

    h = x + bias,   n = (h − mean h) / √(var h + ε),   y = tanh(γ n + β)

A program owns some rows and keeps them in registers, so that forward reads x and writes y, and backward reads
x and dL/dy and writes dL/dx. Backward computes y again. Sums over points (of γ, β and the bias) are written
per program, and added by torch: no atomic operation, so results do not depend on the order of execution.

Axes: N points, D columns, R rows of a program; DP: D padded to a power of two.
"""

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """Tanh x, without overflow; small values keep their digits."""
    e = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - e) / (1.0 + e)
    square = x * x
    # The series up to x⁹; its error is below 1e-8 of the result.
    small = x * (1.0 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315 - square * (62 / 2835)))))
    return tl.where(tl.abs(x) < 0.15, small, tl.where(x < 0.0, -large, large))


@triton.jit
def normalise(x, bias, row, is_there, epsilon, D: tl.constexpr, DP: tl.constexpr):
    """(R, DP) normalised rows, 0 beyond the D columns, and 1/√(var + ε) (R,)."""
    d = tl.arange(0, DP)
    mask = is_there[:, None] & (d < D)[None, :]
    h = tl.load(x + (row * D)[:, None] + d[None, :], mask, other=0.0).to(tl.float32)
    h += tl.load(bias + d, d < D, other=0.0).to(tl.float32)[None, :]
    centred = tl.where((d < D)[None, :], h - (tl.sum(h, 1) / D)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / D + epsilon)
    return centred * scale[:, None], scale


@triton.jit(do_not_specialize=["n_points"])
def activate(
    x, bias, gamma, beta, y, n_points, epsilon,
    D: tl.constexpr, DP: tl.constexpr, R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Store y (N, D)."""
    program = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, DP)
    g = tl.load(gamma + d, d < D, other=0.0)
    b = tl.load(beta + d, d < D, other=0.0)
    for step in range(STEPS):
        row = (program * STEPS + step) * R + tl.arange(0, R)
        is_there = row < n_points
        n, _ = normalise(x, bias, row, is_there, epsilon, D, DP)
        out = tanh(n * g[None, :] + b[None, :])
        mask = is_there[:, None] & (d < D)[None, :]
        tl.store(y + (row * D)[:, None] + d[None, :], out, mask)


@triton.jit(do_not_specialize=["n_points"])
def backward(
    x, bias, gamma, beta, grad, d_x, sums, n_points, epsilon,
    D: tl.constexpr, DP: tl.constexpr, R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Store dL/dx (N, D), and each program's sums for γ, β and the bias (programs, 3, D)."""
    program = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, DP)
    g = tl.load(gamma + d, d < D, other=0.0)
    b = tl.load(beta + d, d < D, other=0.0)
    d_gamma = tl.zeros((DP,), tl.float32)
    d_beta = tl.zeros((DP,), tl.float32)
    d_bias = tl.zeros((DP,), tl.float32)
    for step in range(STEPS):
        row = (program * STEPS + step) * R + tl.arange(0, R)
        is_there = row < n_points
        mask = is_there[:, None] & (d < D)[None, :]
        n, scale = normalise(x, bias, row, is_there, epsilon, D, DP)
        y = tanh(n * g[None, :] + b[None, :])
        dy = tl.load(grad + (row * D)[:, None] + d[None, :], mask, other=0.0).to(tl.float32)
        inner = dy * (1.0 - y * y)
        d_gamma += tl.sum(inner * n, 0)
        d_beta += tl.sum(inner, 0)
        dn = inner * g[None, :]
        mean, along = tl.sum(dn, 1) / D, tl.sum(dn * n, 1) / D
        dh = (dn - mean[:, None] - n * along[:, None]) * scale[:, None]
        dh = tl.where(mask, dh, 0.0)
        d_bias += tl.sum(dh, 0)
        tl.store(d_x + (row * D)[:, None] + d[None, :], dh.to(d_x.dtype.element_ty), mask)
    at = sums + program * (3 * D) + d
    tl.store(at, d_gamma, d < D)
    tl.store(at + D, d_beta, d < D)
    tl.store(at + 2 * D, d_bias, d < D)
