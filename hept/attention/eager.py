"""Block attention in plain torch: the definition that the other back ends must meet.

Axes: N points, H heads, C tables, D dimensions, K blocks, S slots.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from hept.attention.blocks import Blocks
from hept.attention.rows import Layout, Rows

# Added to the normalisation, so that a query without a key near it gives 0.
EPSILON = 1e-20


def attend_eager(rows: Rows, layout: Layout) -> Tensor:
    """Σ over tables and keys of the block of exp(−½‖q−k‖²)·v, divided by the same sum without v.

    Args:
        rows: Queries, keys and values of the points.
        layout: Which of them share a block.

    Returns:
        (H, N, V).
    """
    query, key = rows.join_place()
    blocks = layout.blocks
    q = gather_slots(query, layout.query_order, blocks)  # (C, H, K, S, D)
    k = gather_slots(key, layout.key_order, blocks)
    v = gather_slots(rows.value, layout.key_order, blocks)
    weight = kernel(q, k) * blocks.is_filled.unsqueeze(1)  # (C, H, K, S, S)
    total = return_to_points(weight.sum(-1, keepdim=True), layout.query_order, blocks)
    return return_to_points(weight @ v, layout.query_order, blocks) / (total + layout.n_tables * EPSILON)


def kernel(q: Tensor, k: Tensor) -> Tensor:
    """exp(−½‖q−k‖²) of the queries and keys of each block: (…, S, S) from (…, S, D) twice."""
    # In float32, q·k − ½q² − ½k² cancels: with trained ω it is wrong by up to 0.6. Around the middle of the
    # block and in float64 it is as good as the difference itself, at the price of one matrix product.
    middle = k.narrow(-2, k.shape[-2] // 2, 1).detach()
    q64, k64 = (q - middle).double(), (k - middle).double()
    q_half, k_half = (0.5 * rows.square().sum(-1, keepdim=True) for rows in (q64, k64))
    logit = q64 @ k64.mT - q_half - k_half.mT
    return logit.clamp(max=0.0).to(q.dtype).exp()


def gather_slots(rows: Tensor, order: Tensor, blocks: Blocks) -> Tensor:
    """Rows (H, N, D) laid into the slots of each table's blocks: (C, H, K, S, D)."""
    n_blocks, size = blocks.position.shape
    head = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1) * rows.shape[1]
    index = (order + head).index_select(-1, blocks.position.flatten())  # (C, H, K·S) on the axis of H·N rows
    # A look-up of rows by integers, whose backward pass is made for that.
    found = functional.embedding(index, rows.flatten(0, 1))
    return found.view(*index.shape[:2], n_blocks, size, rows.shape[-1])


def return_to_points(slots: Tensor, order: Tensor, blocks: Blocks) -> Tensor:
    """Rows of slots (C, H, K, S, D) added over the tables, back in the order of the points: (H, N, D)."""
    position = torch.empty_like(order)
    position.scatter_(-1, order, torch.arange(order.shape[-1], device=order.device).expand(order.shape))
    index = blocks.slot.take(position).unsqueeze(-1)  # (C, H, N, 1), the slot of each point
    flat = slots.flatten(2, 3)
    return flat.gather(2, index.expand(*index.shape[:3], flat.shape[-1])).sum(0)
