"""Cut sorted clouds into equal blocks: sizes of clouds enter, slots of blocks leave.

The blocks of all clouds lie on one flat axis, and no block holds points of two clouds. A cloud of n points
has ⌈n/S⌉ blocks whose lengths differ by at most one, so that no point ends up in a nearly empty last block.

Axes: N points, B clouds, K blocks, S slots of a block (the block size).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hept.attention.clouds import Clouds


@dataclass(frozen=True)
class Blocks:
    """Where the sorted positions of the point axis lie in blocks.

    Attributes:
        position: (K, S) int64, the sorted position that each slot holds; an empty slot repeats one of its
            own block.
        is_filled: (K, S) bool, False for empty slots, which must count neither as query nor as key.
        slot: (N,) int64, the slot k·S + s of each sorted position.
    """

    position: Tensor
    is_filled: Tensor
    slot: Tensor


def cut_into_blocks(clouds: Clouds, block_size: int) -> Blocks:
    """Cut the clouds, sorted one behind the other, into blocks of at most `block_size` points."""
    device, size = clouds.offsets.device, block_size
    # Σ⌈n/S⌉ is known to the device only; ⌊N/S⌋ + B bounds it from shapes alone, and the surplus stays empty.
    n_blocks = clouds.n_points // size + clouds.n_clouds
    if clouds.n_clouds == 1:
        n_blocks = (clouds.n_points + size - 1) // size
    per_cloud = (clouds.sizes + size - 1) // size  # (B,)
    last = per_cloud.cumsum(0)
    first = last - per_cloud

    block = torch.arange(n_blocks, device=device)
    cloud = torch.searchsorted(last, block, right=True).clamp(max=clouds.n_clouds - 1)  # (K,)
    i = block - first.index_select(0, cloud)
    start = _block_start(clouds, per_cloud, cloud, i)
    end = torch.where(block < per_cloud.sum(), _block_start(clouds, per_cloud, cloud, i + 1), start)
    offset = torch.arange(size, device=device)
    is_filled = offset < (end - start).unsqueeze(1)  # (K, S)
    position = (start.unsqueeze(1) + offset).minimum((end - 1).maximum(start).unsqueeze(1))
    position = position.clamp(max=max(clouds.n_points - 1, 0))

    # The block of the point of rank r: the largest i with ⌊i·n/blocks⌋ ≤ r.
    position_of_point = torch.arange(clouds.n_points, device=device)
    rank = position_of_point - clouds.spread(clouds.offsets)
    mine = ((rank + 1) * clouds.spread(per_cloud) - 1) // clouds.spread(clouds.sizes)
    begin = _block_start(clouds, per_cloud, clouds.index, mine)
    slot = (clouds.spread(first) + mine) * size + position_of_point - begin
    return Blocks(position, is_filled, slot)


def _block_start(clouds: Clouds, per_cloud: Tensor, cloud: Tensor, i: Tensor) -> Tensor:
    """Sorted position at which the i-th block of a cloud begins: ⌊i·n/blocks⌋ behind the cloud's first."""
    offset, n, n_blocks = (of.index_select(0, cloud) for of in (clouds.offsets, clouds.sizes, per_cloud))
    return offset + i * n // n_blocks.clamp(min=1)
