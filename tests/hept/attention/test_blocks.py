"""Sorted clouds are cut into equal blocks that no two clouds share."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hept import Clouds
from hept.attention.definition import cut_into_blocks

SIZES = st.lists(st.integers(0, 25), min_size=1, max_size=6)


def cut(sizes: list[int], block_size: int):
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    clouds = Clouds.from_offsets(offsets, int(offsets[-1]))
    return clouds, cut_into_blocks(clouds, block_size)


@given(sizes=SIZES, block_size=st.integers(1, 12))
@settings(max_examples=60)
def test_every_point_has_one_slot_in_a_block_of_its_cloud(sizes, block_size):
    clouds, blocks = cut(sizes, block_size)
    filled = blocks.position[blocks.is_filled]
    assert filled.tolist() == list(range(sum(sizes)))
    slots = torch.arange(blocks.position.numel()).view(blocks.position.shape)
    assert slots[blocks.is_filled].tolist() == blocks.slot.tolist()
    for k in range(blocks.position.shape[0]):
        if blocks.is_filled[k].any():
            # Empty slots repeat a point of the same block, so that points of other blocks are never read.
            assert len(clouds.index[blocks.position[k]].unique()) == 1
            assert set(blocks.position[k].tolist()) == set(blocks.position[k][blocks.is_filled[k]].tolist())


@given(sizes=SIZES, block_size=st.integers(1, 12))
@settings(max_examples=60)
def test_blocks_of_a_cloud_are_few_and_of_equal_length(sizes, block_size):
    clouds, blocks = cut(sizes, block_size)
    lengths = blocks.is_filled.sum(1)
    for cloud, n in enumerate(sizes):
        if n:
            first_slots = blocks.slot[clouds.index == cloud]
            mine = lengths[(first_slots // block_size).unique()]
            assert len(mine) == -(-n // block_size)
            assert mine.max() - mine.min() <= 1


def test_the_number_of_blocks_follows_from_shapes_alone():
    a, b = (cut(sizes, 10)[1].position.shape for sizes in ([50, 50], [1, 99]))
    assert a == b == (100 // 10 + 2, 10)
    assert [len(cut([n], 10)[1].position) for n in (1, 99, 100, 101)] == [1, 10, 10, 11]
