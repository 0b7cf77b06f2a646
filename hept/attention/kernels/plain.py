"""Block attention in plain torch, a group of blocks at a time: the reference, which runs on every device.

Axes: N points, H heads, C tables, D dimensions, V of a value, K blocks, S slots.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from hept.attention.kernels.operands import Blocks, Layout, Operands
from hept.devices.precision import find_widest
from hept.devices.tracing import is_exporting

# Added to the normalisation of each table, so that a query without a near key gives 0.
EPSILON = 1e-20
# About 1 / EPSILON.
UNITS_OF_EPSILON = 2.0**66
# Largest number of kernel values in memory at a time: 64 MB in float32.
MOST_WEIGHTS = 2**24


def attend_plain(operands: Operands, layout: Layout) -> Tensor:
    """Σ over tables and keys of the block of exp(−½‖q−k‖²)·v, divided by the same sum without v.

    Args:
        operands: Queries, keys and values of the points.
        layout: Which of them share a block.

    Returns:
        (H, N, V).
    """
    query, key = operands.join_coords()
    # A column of ones makes the same product compute the normalisation.
    value = functional.pad(operands.value, (0, 1), value=1.0)
    dtype = torch.promote_types(query.dtype, value.dtype)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    blocks = layout.blocks
    tables = []
    for query_order, key_order in zip(layout.query_order, layout.key_order, strict=True):
        q = gather_slots(query, query_order, blocks)  # (H, K, S, D)
        k = gather_slots(key, key_order, blocks)
        v = gather_slots(value, key_order, blocks) * blocks.is_filled.unsqueeze(-1)  # (H, K, S, V+1)
        tables.append(return_to_points(_sum_over_keys(q, k, v), query_order, blocks))
    sums = torch.stack(tables).sum(0)  # (H, N, V+1)
    epsilon = layout.n_tables * EPSILON
    if is_exporting():
        # Translators drop the addition of a number below 1e-8. Powers of two change no digit.
        sums, epsilon = sums * UNITS_OF_EPSILON, epsilon * UNITS_OF_EPSILON
    total = sums.narrow(-1, sums.shape[-1] - 1, 1)
    return sums.narrow(-1, 0, sums.shape[-1] - 1) / (total + epsilon)


def _sum_over_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Σ_j exp(−½‖q_i−k_j‖²) v_j of all blocks: (H, K, S, V)."""
    if is_exporting():
        # Groups of blocks would fix their number, so that one head at a time bounds the memory. With indexing
        # instead of splitting, onnxruntime needs 2.9 GB instead of 1.2 GB for 60,000 points.
        heads = zip(*(torch.split(each, 1) for each in (q, k, v)), strict=True)
        return torch.cat([weigh(q, k) @ v for q, k, v in heads])
    n_heads, n_blocks, size, _ = q.shape
    step = max(1, MOST_WEIGHTS // max(1, n_heads * size**2))
    if n_blocks <= step:
        return weigh(q, k) @ v
    # The backward pass recomputes the kernel, so that only one group of blocks is in memory.
    sums = [
        checkpoint(lambda q, k, v: weigh(q, k) @ v, *parts, use_reentrant=False, preserve_rng_state=False)
        for parts in zip(*(torch.split(each, step, 1) for each in (q, k, v)), strict=True)
    ]
    return torch.cat(sums, 1)


def weigh(q: Tensor, k: Tensor) -> Tensor:
    """exp(−½‖q−k‖²) of the queries and keys of each block: (…, S, S) from (…, S, D) twice."""
    if find_widest(q.device) != torch.float64:
        columns = zip(q.unbind(-1), k.unbind(-1), strict=True)
        squares = [(a.unsqueeze(-1) - b.unsqueeze(-2)).square() for a, b in columns]
        return torch.stack(squares).sum(0).mul(-0.5).exp()
    return _exponentiate(*_extend(q, k), q.dtype).view(*q.shape[:-1], k.shape[-2])


def _extend(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """[q, −½q², 1] (·, S, D+2) and [k, 1, −½k²] (·, D+2, S), float64: their product is −½‖q−k‖²."""
    # In float32, q·k − ½q² − ½k² cancels: with trained ω the error reaches 0.6. Relative to a key of the
    # block and in float64 it is as precise as the difference, and costs one matrix product.
    middle = k.narrow(-2, k.shape[-2] // 2, 1).detach()
    q64, k64 = (q - middle).double(), (k - middle).double()
    q_half, k_half = (-0.5 * rows.square().sum(-1, keepdim=True) for rows in (q64, k64))
    one = torch.ones_like(q_half)
    # The leading axes are joined after the transposition: onnxruntime up to 1.25 would replace it and the
    # product by one operator, which it has in single precision only.
    left, right = torch.cat([q64, q_half, one], -1), torch.cat([k64.mT, one.mT, k_half.mT], -2)
    return left.flatten(0, -3), right.flatten(0, -3)


def _exponentiate(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """Exp of the products of rows (·, S, D+2) and columns (·, D+2, S), at most 1: (·, S, S)."""
    return (left @ right).to(dtype).clamp(max=0.0).exp()


def gather_slots(rows: Tensor, order: Tensor, blocks: Blocks) -> Tensor:
    """Gather rows (H, N, …), sorted by `order` (H, N), into the slots of blocks: (H, K, S, …)."""
    head = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1) * rows.shape[1]
    index = (order + head).index_select(-1, blocks.position.flatten())  # (H, K·S) on the axis of H·N rows
    # `embedding` has a faster backward pass than indexing.
    found = functional.embedding(index, rows.reshape(rows.shape[0] * rows.shape[1], -1))
    return found.view(rows.shape[0], *blocks.position.shape, *rows.shape[2:])


def return_to_points(slots: Tensor, order: Tensor, blocks: Blocks) -> Tensor:
    """Scatter rows of slots (H, K, S, …) back to the points: (H, N, …)."""
    index = blocks.slot.take(invert(order)).unsqueeze(-1)  # (H, N, 1), the slot of each point
    n_slots = slots.shape[1] * slots.shape[2]
    if is_exporting():
        # Whole rows by one integer each; runtimes look up single elements far more slowly.
        head = torch.arange(slots.shape[0], device=slots.device).unsqueeze(1) * n_slots
        found = functional.embedding(index.squeeze(-1) + head, slots.reshape(slots.shape[0] * n_slots, -1))
        return found.view(*order.shape, *slots.shape[3:])
    flat = slots.reshape(slots.shape[0], n_slots, -1)
    found = flat.gather(1, index.expand(*index.shape[:2], flat.shape[-1]))
    return found.view(*order.shape, *slots.shape[3:])


def invert(order: Tensor) -> Tensor:
    """Invert permutations along the last axis: the position of every point in its order."""
    position = torch.arange(order.shape[-1], device=order.device).expand(order.shape)
    return torch.empty_like(order).scatter_(-1, order, position)
