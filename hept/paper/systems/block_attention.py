"""Softmax attention exp(q·k) inside blocks of sorted points: orders enter, outputs and weights leave.

Axes: C tables, H heads, N points, D dimensions, K blocks, S slots of a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hept.attention.kernels.operands import Blocks
from hept.attention.kernels.plain import gather_slots, return_to_points

# Finite replacement of log 0 for empty slots: the difference of two infinities would be NaN.
NOTHING = -1e30


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_order: Tensor,
    key_order: Tensor,
    blocks: Blocks,
) -> tuple[Tensor, Tensor]:
    """Attend in one table.

    Args:
        query: (H, N, D).
        key: (H, N, D).
        value: (H, N, V).
        query_order: (H, N) order of the queries.
        key_order: (H, N) order of the keys.
        blocks: Partition of the sorted axis.

    Returns:
        (H, N, V) normalised outputs, and (H, N) the logarithms of their normalisations.
    """
    q, k, v = (
        gather_slots(rows, order, blocks)
        for rows, order in ((query, query_order), (key, key_order), (value, key_order))
    )
    logits = (q @ k.mT).masked_fill(~blocks.is_filled[:, None, :], NOTHING)  # (H, K, S, S)
    total = logits.logsumexp(-1)
    out = (logits - total[..., None]).exp() @ v
    return return_to_points(out, query_order, blocks), return_to_points(total, query_order, blocks)


def combine(outputs: list[Tensor], totals: list[Tensor]) -> Tensor:
    """Combine normalised outputs, given log normalisations, into one sum with one normalisation."""
    weight = torch.stack(totals).softmax(0)  # (C, H, N)
    return (weight[..., None] * torch.stack(outputs)).sum(0)
