"""Large arrays: as good as fresh ones, on memory that nobody else holds."""

import gc

import numpy as np
import pytest
import torch

from hepdata.storage import reused_memory
from hepdata.storage.reused_memory import SMALLEST, empty

LENGTH = SMALLEST  # of int32: four times the smallest size


@pytest.fixture(autouse=True)
def nothing_left_over():
    gc.collect()
    reused_memory._free.clear()
    yield
    reused_memory._free.clear()


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_is_gone():
    first = empty(LENGTH, np.int32)
    first[:] = np.arange(LENGTH)
    place, view = address(first), first.view(np.uint8)[4:12].view(np.int32)
    del first
    second = empty(LENGTH, np.int32)
    second[:] = 0
    assert address(second) != place
    assert view.tolist() == [1, 2]
    del view
    assert address(empty(LENGTH, np.int32)) == place


def test_a_tensor_keeps_its_memory():
    array = empty(LENGTH, np.int32)
    array[:] = 7
    tensor = torch.from_numpy(array)
    del array
    empty(LENGTH, np.int32)[:] = 0
    assert int(tensor.sum()) == 7 * LENGTH


def test_length_type_and_writing_are_those_asked_for():
    array = empty(LENGTH, np.int64)
    assert (array.shape, array.dtype) == ((LENGTH,), np.int64)
    assert array.flags.carray
    assert len(empty(3, np.float32)) == 3
    assert empty(0, np.float32).shape == (0,)


@pytest.mark.parametrize("other", [LENGTH * 4, LENGTH // 4])
def test_memory_of_another_size_is_let_go(other):
    first = empty(LENGTH, np.int32)
    del first
    second = empty(other, np.int32)
    assert len(second) == other
    assert not reused_memory._free


def test_little_is_kept():
    arrays = [empty(LENGTH, np.int32) for _ in range(5)]
    assert len({address(array) for array in arrays}) == 5
    del arrays
    assert len(reused_memory._free) == 2
