"""Cut sorted clouds into equal blocks: sizes of clouds enter, slots of blocks leave.

The blocks of all clouds lie on one flat axis, and no block holds points of two clouds. A cloud of n points
has ⌈n/S⌉ blocks whose lengths differ by at most one, so that no point ends up in a nearly empty last block.

Axes: N points, B clouds, K blocks, S slots of a block (the block size).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hept.clouds import Clouds


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
    per_cloud = (clouds.sizes + size - 1) // size  # (B,)
    last = per_cloud.cumsum(0)
    first = last - per_cloud

    block = torch.arange(n_blocks, device=device)
    cloud = torch.searchsorted(last, block, right=True).clamp(max=clouds.n_clouds - 1)  # (K,)
    start = _block_start(clouds, per_cloud, cloud, block - first[cloud])
    end = _block_start(clouds, per_cloud, cloud, block - first[cloud] + 1)
    end = torch.where(block < last[-1], end, start)
    offset = torch.arange(size, device=device)
    is_filled = offset < (end - start)[:, None]  # (K, S)
    position = (start[:, None] + offset).minimum((end - 1).maximum(start)[:, None])
    position = position.clamp(max=max(clouds.n_points - 1, 0))

    # The block of the point of rank r: the largest i with ⌊i·n/blocks⌋ ≤ r.
    rank = torch.arange(clouds.n_points, device=device) - clouds.offsets[clouds.index]
    mine = ((rank + 1) * per_cloud[clouds.index] - 1) // clouds.sizes[clouds.index]
    begin = _block_start(clouds, per_cloud, clouds.index, mine) - clouds.offsets[clouds.index]
    slot = (first[clouds.index] + mine) * size + rank - begin
    return Blocks(position, is_filled, slot)


def _block_start(clouds: Clouds, per_cloud: Tensor, cloud: Tensor, i: Tensor) -> Tensor:
    """Sorted position at which the i-th block of a cloud begins: ⌊i·n/blocks⌋ behind the cloud's first."""
    return clouds.offsets[cloud] + i * clouds.sizes[cloud] // per_cloud[cloud].clamp(min=1)
