"""Large arrays: as good as fresh ones, on memory that nobody else holds."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from hepdata.storage import reused_memory
from hepdata.storage.reused_memory import KEPT_BYTES, SMALLEST, empty

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


def test_sizes_that_alternate_keep_their_memory():
    """As the two pair lists of a large cloud do: neither pushes the other's memory out."""
    sizes = (LENGTH, 8 * LENGTH)
    places = [{address(empty(length, np.int32)) for length in sizes} for _ in range(4)]
    assert places[1] == places[2] == places[3]


@pytest.mark.parametrize(("n_bytes", "n_kept"), [(KEPT_BYTES // 5, 4), (KEPT_BYTES, 2)])
def test_little_is_kept(n_bytes, n_kept):
    """A quarter more than was asked for, as often as it goes into the limit; two where it does not."""
    arrays = [empty(n_bytes, np.uint8) for _ in range(9)]
    assert len({address(array) for array in arrays}) == 9
    del arrays
    assert len(reused_memory._free) == n_kept


def test_the_memory_used_last_is_used_next():
    arrays = [empty(LENGTH, np.int32) for _ in range(3)]
    places = [address(array) for array in arrays]
    for _ in range(3):
        del arrays[0]
    assert [address(array) for array in [empty(LENGTH, np.int32) for _ in range(3)]] == places[::-1]


def test_many_threads_share_no_memory():
    def fill(number):
        array = empty(LENGTH, np.int32)
        array[:] = number
        other = empty(LENGTH * (1 + number % 3), np.int32)
        other[:] = -1
        return bool((array == number).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(fill, range(60)))
