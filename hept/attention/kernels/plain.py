"""Block attention in plain torch, a group of blocks at a time: the reference, which runs on every device.

Axes: N points, H heads, C tables, D dimensions, V of a value, K blocks, S slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import starmap

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


@dataclass(frozen=True)
class Rows:
    """Expanded queries or keys, see `expand`.

    Attributes:
        hidden: (…, M+2), of the features.
        coords: (…, P+2), of the coordinates in float64; or (…, P), coordinates that are subtracted directly.
    """

    hidden: Tensor
    coords: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> Rows:
        """Both parts, changed."""
        return Rows(change(self.hidden), change(self.coords))

    def split(self, size: int) -> list[Rows]:
        """Groups along the first axis."""
        parts = zip(torch.split(self.hidden, size), torch.split(self.coords, size), strict=True)
        return list(starmap(Rows, parts))


def attend_plain(operands: Operands, layout: Layout) -> Tensor:
    """Σ over tables and keys of the block of exp(−½‖q−k‖²)·v, divided by the same sum without v.

    Args:
        operands: Queries, keys and values of the points.
        layout: Which of them share a block.

    Returns:
        (H, N, V).
    """
    # A column of ones makes the same product compute the normalisation.
    value = functional.pad(operands.value, (0, 1), value=1.0)
    query, key = expand(operands, torch.promote_types(operands.query.dtype, value.dtype))
    value, blocks = value.to(query.hidden.dtype), layout.blocks
    tables = []
    for query_order, key_order in zip(layout.query_order, layout.key_order, strict=True):
        q = query.map(partial(gather_slots, order=query_order, blocks=blocks))  # (H, K, S, ·)
        k = key.map(partial(gather_slots, order=key_order, blocks=blocks))
        v = gather_slots(value, key_order, blocks) * blocks.is_filled.unsqueeze(-1)  # (H, K, S, V+1)
        tables.append(return_to_points(_sum_over_keys(q, k, v), query_order, blocks))
    sums = torch.stack(tables).sum(0)  # (H, N, V+1)
    epsilon = layout.n_tables * EPSILON
    if is_exporting():
        # Translators drop the addition of a number below 1e-8. Powers of two change no digit.
        sums, epsilon = sums * UNITS_OF_EPSILON, epsilon * UNITS_OF_EPSILON
    total = sums.narrow(-1, sums.shape[-1] - 1, 1)
    return sums.narrow(-1, 0, sums.shape[-1] - 1) / (total + epsilon)


def expand(operands: Operands, dtype: torch.dtype) -> tuple[Rows, Rows]:
    """Queries [q, −½q², 1] and keys [k, 1, −½k²], whose product is −½‖q−k‖²; coordinates likewise."""
    query, key = _expand_square(operands.query.to(dtype), operands.key.to(dtype))
    if operands.coords is None:
        none = query.new_zeros(*query.shape[:-1], 0)
        return Rows(query, none), Rows(key, none)
    widest = find_widest(query.device)
    coords = operands.coords.mT.to(dtype)
    if dtype == widest:
        return Rows(query, coords), Rows(key, coords)
    # In float32, c·c' − ½c² − ½c'² cancels: with trained ω the error reaches 0.6. In float64 it is as precise
    # as the difference of numbers in float32, and costs one product.
    left, right = _expand_square(coords.to(widest), coords.to(widest))
    return Rows(query, left), Rows(key, right)


def _expand_square(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """[q, −½q², 1] and [k, 1, −½k²] of rows (·, D) twice."""
    q_half, k_half = (-0.5 * rows.square().sum(-1, keepdim=True) for rows in (q, k))
    one = torch.ones_like(q_half)
    return torch.cat([q, q_half, one], -1), torch.cat([k, one, k_half], -1)


def _sum_over_keys(q: Rows, k: Rows, v: Tensor) -> Tensor:
    """Σ_j exp(−½‖q_i−k_j‖²) v_j of all blocks: (H, K, S, V)."""
    if is_exporting():
        # Groups of blocks would fix their number, so that one head at a time bounds the memory. With indexing
        # instead of splitting, onnxruntime needs 2.9 GB instead of 1.2 GB for 60,000 points.
        heads = zip(q.split(1), k.split(1), torch.split(v, 1), strict=True)
        return torch.cat([weigh(q, k) @ v for q, k, v in heads])
    size = v.shape[2]
    q, k = (rows.map(partial(torch.flatten, end_dim=1)) for rows in (q, k))
    step = max(1, MOST_WEIGHTS // size**2)
    groups = list(zip(q.split(step), k.split(step), torch.split(v.flatten(0, 1), step), strict=True))
    if len(groups) == 1:
        sums = [weigh(q, k) @ v for q, k, v in groups]
    else:
        # The backward pass recomputes the kernel, so that only one group of blocks is in memory.
        sums = [
            checkpoint(lambda q, k, v: weigh(q, k) @ v, *group, use_reentrant=False, preserve_rng_state=False)
            for group in groups
        ]
    return torch.cat(sums).view(v.shape)


def weigh(q: Rows, k: Rows) -> Tensor:
    """exp(−½‖q−k‖²), at most 1, of expanded queries and keys in blocks (…, S, ·): (…, S, S)."""
    shape = *q.hidden.shape[:-1], k.hidden.shape[-2]
    # The leading axes are joined after the transposition: onnxruntime up to 1.25 would replace it and the
    # product by one operator, which it has in single precision only.
    left, right = (rows.flatten(0, -3) for rows in (q.hidden, k.hidden.mT))
    if q.coords.dtype != q.hidden.dtype:
        of_coords = q.coords.flatten(0, -3) @ k.coords.mT.flatten(0, -3)
        exponent = torch.baddbmm(of_coords.to(left.dtype), left, right)
    else:
        exponent = left @ right
        for a, b in zip(q.coords.unbind(-1), k.coords.unbind(-1), strict=True):
            difference = (a.unsqueeze(-1) - b.unsqueeze(-2)).flatten(0, -3)
            exponent = torch.addcmul(exponent, difference, difference, value=-0.5)
    return exponent.clamp(max=0.0).exp().view(shape)


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
