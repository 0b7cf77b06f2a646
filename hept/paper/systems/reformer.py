"""Reformer (Kitaev et al. 2020): angular hashing of tied, normalised keys; blocks also see the previous one.

Points are sorted by the bucket of a random rotation, arg max [xR ‖ −xR], cut into blocks, and attend to
their own and the preceding block of their cloud. A point attends to itself only if it has no other key.
Consecutive buckets are not neighbours in space, which is the paper's argument against it.

Axes: H heads, N points, D dimensions, C tables, K blocks, S slots.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels.operands import Blocks
from hept.attention.kernels.plain import gather_slots, return_to_points
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.block_attention import NOTHING, combine
from hept.paper.systems.projections import multi_head

# Logit of a point with itself; other logits are near zero, since keys are normalised.
ON_ITSELF = -5e4


class ReformerAttention(nn.Module):
    """LSH attention with keys k = q/‖q‖.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        block_size: Points per block; a cloud of n points has about n / block_size buckets.
        n_tables: Rounds of hashing.
        max_buckets: Maximum number of buckets per cloud.
    """

    def __init__(
        self, n_heads: int, dim: int, *, block_size: int = 100, n_tables: int = 3, max_buckets: int = 1024
    ) -> None:
        super().__init__()
        self.block_size = block_size
        self.register_buffer("rotations", torch.randn(n_tables, n_heads, dim, max_buckets // 2))

    rotations: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V); `key` is not used."""
        blocks = cut_into_blocks(clouds, self.block_size)
        before = previous_block(blocks, clouds)
        # Unit keys, scaled to match the factor of the queries.
        key = functional.normalize(query, dim=-1) * query.shape[-1] ** 0.25
        outputs, totals = [], []
        for table in range(self.rotations.shape[0]):
            with torch.no_grad():
                order = self._sort(query, table, clouds)
            out, total = _attend(query, key, value, order, blocks, before)
            outputs.append(out)
            totals.append(total)
        return combine(outputs, totals)

    def _sort(self, query: Tensor, table: int, clouds: Clouds) -> Tensor:
        half = (clouds.sizes + 2 * self.block_size - 1) // (2 * self.block_size)
        half = half.clamp(min=1, max=self.rotations.shape[-1])  # (B,) rotations of each cloud
        n_rotations = int(half.max())
        rotated = query @ self.rotations[table, :, :, :n_rotations].to(query.dtype)  # (H, N, R)
        unused = torch.arange(n_rotations, device=query.device) >= half[clouds.index][:, None]
        # Mask rotations beyond the cloud's own, so that other clouds of the batch do not change its buckets.
        both = torch.cat([rotated, -rotated], -1).masked_fill(unused.repeat(1, 2), -torch.inf)
        bucket = both.argmax(-1)
        bucket = torch.where(bucket < n_rotations, bucket, bucket - n_rotations + half[clouds.index])
        return torch.sort(clouds.index * (2 * n_rotations) + bucket, dim=-1, stable=True).indices


def previous_block(blocks: Blocks, clouds: Clouds) -> Tensor:
    """(K,) the previous block in the same cloud, cyclically; a single block precedes itself."""
    cloud = clouds.index[blocks.position[:, 0]] if clouds.n_points else blocks.position[:, 0]
    block = torch.arange(len(cloud), device=cloud.device)
    is_used = blocks.is_filled[:, 0]
    # Surplus blocks after the last cloud belong to no cloud.
    cloud = torch.where(is_used, cloud, clouds.n_clouds)
    first = torch.searchsorted(cloud.contiguous(), cloud.contiguous())
    last = torch.searchsorted(cloud.contiguous(), cloud.contiguous(), right=True) - 1
    return torch.where(block == first, last, block - 1)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, order: Tensor, blocks: Blocks, before: Tensor
) -> tuple[Tensor, Tensor]:
    q, k, v = (gather_slots(rows, order, blocks) for rows in (query, key, value))
    point = gather_slots(torch.arange(query.shape[1], device=query.device).expand(order.shape), order, blocks)
    is_alone = before == torch.arange(len(before), device=before.device)
    seen = torch.cat([blocks.is_filled, blocks.is_filled[before] & ~is_alone[:, None]], -1)  # (K, 2S)
    k2, v2, point2 = (torch.cat([rows, rows[:, before]], 2) for rows in (k, v, point))
    logits = q @ k2.mT  # (H, K, S, 2S)
    logits = logits.masked_fill(point[..., :, None] == point2[..., None, :], ON_ITSELF)
    logits = logits.masked_fill(~seen[:, None, :], NOTHING)
    total = logits.logsumexp(-1)
    out = (logits - total[..., None]).exp() @ v2
    return return_to_points(out, order, blocks), return_to_points(total, order, blocks)


def make_reformer(frame: Frame, width: int) -> AttentionFactory:
    """Make Reformer with the sizes of a comparison: two tables for HEPT's three, since a block sees two."""
    n_tables = max(1, 2 * frame.n_tables // 3)
    return multi_head(
        frame,
        width,
        lambda dim, layer: ReformerAttention(
            frame.n_heads, dim, block_size=frame.block_size, n_tables=n_tables
        ),
        is_tied=True,
    )
