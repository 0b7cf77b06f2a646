"""Block attention by fused softmax attention, `scaled_dot_product_attention` and FlexAttention.

Both compute softmax(q·k)·v and no sum over tables, so two things are added:

    −½‖q−k‖² as one product of columns (see `hept.attention.distances`), with a logit of −10⁴ in empty slots,
    which so have no weight

and what each table's softmax was divided by: for `sdpa` by a null key of logit 0, which collects 1/(1+Z) in a
column of its own; for `flex` by the log-sum-exp that it returns.

The grid is as fine as the farthest point of a cloud allows: in float32 an outlier costs its whole cloud
precision here, where `grouped` changes to float64 on a CPU.

Axes: N points, H heads, C tables, D dimensions of a query, V of a value, K blocks, S slots.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from hept.attention.distances import logit_parts, select_columns
from hept.attention.eager import EPSILON, gather_slots, return_to_points
from hept.attention.rows import Layout, Rows

# A logit that no kernel gives and whose exponential is 0 in every precision.
NO_WEIGHT = -1e4


def attend_sdpa(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, by `scaled_dot_product_attention`; the same arguments and result."""
    q, k = _logit_columns(rows, layout)
    v = gather_slots(rows.value, layout.key_order, layout.blocks)  # (C, H, K, S, V)
    n_values = v.shape[-1]
    # Columns [v, 1, 0] and, for the null key, [0, 0, 1]: sums of the kernel, and what they were divided by.
    null = functional.pad(torch.zeros_like(v.narrow(-2, 0, 1)), (0, 1))
    null = functional.pad(null, (0, 1), value=1.0)
    v = torch.cat([functional.pad(functional.pad(v, (0, 1), value=1.0), (0, 1)), null], -2)
    k = functional.pad(k, (0, 0, 0, 1))
    width = max(q.shape[-1], v.shape[-1])
    q, k, v = (functional.pad(each, (0, width - each.shape[-1])) for each in (q, k, v))
    fused = functional.scaled_dot_product_attention(_as_batch(q), _as_batch(k), _as_batch(v), scale=1.0)
    fused = fused.view(q.shape)  # (C, H, K, S, width)
    # No kernel exceeds 1, so Z ≤ S; rounding may pretend more where an outlier is in the block.
    divided_by = fused.narrow(-1, n_values + 1, 1).clamp(min=1 / (q.shape[-2] + 1))
    sums = fused.narrow(-1, 0, n_values + 1) / divided_by
    return _normalise(return_to_points(sums, layout.query_order, layout.blocks), layout.n_tables)


def attend_flex(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, by FlexAttention; the same arguments and result. Fused on CUDA only."""
    q, k = _logit_columns(rows, layout)
    v = gather_slots(rows.value, layout.key_order, layout.blocks)  # (C, H, K, S, V)
    shape = q.shape[:-1]
    # Its kernels want head sizes that are powers of two.
    q, k = (functional.pad(each, (0, _surplus(each.shape[-1]))) for each in (q, k))
    n_values = v.shape[-1]
    v = functional.pad(v, (0, _surplus(n_values)))
    out, lse = _flex(*(_as_batch(each) for each in (q, k, v)))
    out = out.narrow(-1, 0, n_values).reshape(*shape, n_values)  # (C, H, K, S, V)
    # Tables merge by their log-sum-exp: Σ_c e^lse·out over Σ_c e^lse. No kernel exceeds 1, so e^lse ≤ S.
    total = lse.clamp(max=math.log(shape[-1])).exp().view(*shape, 1)
    summed = return_to_points(torch.cat([out * total, total], -1), layout.query_order, layout.blocks)
    return _normalise(summed, layout.n_tables)


def _logit_columns(rows: Rows, layout: Layout) -> tuple[Tensor, Tensor]:
    """Columns at the slots whose product is the logit: (C, H, K, S, W) twice."""
    parts = logit_parts(rows.query, rows.key, rows.place, rows.step).mT  # (H, N, R)
    selection = select_columns(rows.n_places, n_sharp=0 if rows.step is None else rows.n_places, like=parts)
    query = torch.cat([parts @ selection.of_query, rows.query], -1)
    key = torch.cat([parts @ selection.of_key, rows.key], -1)
    blocks = layout.blocks
    q = gather_slots(query, layout.query_order, blocks)
    k = gather_slots(key, layout.key_order, blocks)
    # One more column, so that nothing in an empty slot can outweigh it.
    is_filled = blocks.is_filled.unsqueeze(-1)
    k = torch.where(is_filled, k, 0.0)
    empty = torch.where(is_filled, 0.0, NO_WEIGHT).to(k.dtype).expand(*k.shape[:-1], 1)
    return functional.pad(q, (0, 1), value=1.0), torch.cat([k, empty], -1)


def _as_batch(rows: Tensor) -> Tensor:
    """(C, H, K, S, D) as the batch, single head and sequence of fused attention: (C·H·K, 1, S, D)."""
    return rows.flatten(0, 2).unsqueeze(1)


def _normalise(summed: Tensor, n_tables: int) -> Tensor:
    """n/z from [n, z]: (H, N, V) from (H, N, V+1)."""
    n_values = summed.shape[-1] - 1
    return summed.narrow(-1, 0, n_values) / (summed.narrow(-1, n_values, 1) + n_tables * EPSILON)


def _flex(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(q·k)·v and log Σ exp(q·k)."""
    from torch.nn.attention.flex_attention import flex_attention

    is_fake = type(q) is not Tensor and not torch.compiler.is_compiling()
    if is_fake or (q.device.type == "cpu" and torch.is_grad_enabled()):
        # FlexAttention has no backward pass on a CPU; these are the same two results.
        logit = q @ k.mT
        return logit.softmax(-1) @ v, logit.logsumexp(-1)
    if q.device.type == "cuda" and not torch.compiler.is_compiling():
        out, lse = torch.compile(flex_attention)(q, k, v, scale=1.0, return_lse=True)  # type: ignore[arg-type]
    else:
        out, lse = flex_attention(q, k, v, scale=1.0, return_lse=True)
    return out, lse


def _surplus(width: int) -> int:
    """What is missing to the next power of two, 16 at least."""
    return max(16, 1 << (width - 1).bit_length()) - width
