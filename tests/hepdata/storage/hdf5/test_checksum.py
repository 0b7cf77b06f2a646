"""The fast checksum notices every single changed byte."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.storage.hdf5.checksum import sum_words


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=40), place=st.integers(0, 39), flip=st.integers(1, 255))
def test_any_changed_byte_changes_the_sum(content, place, flip):
    values = np.frombuffer(content, np.uint8).copy()
    before = sum_words(values)
    values[place % len(values)] ^= flip
    assert sum_words(values) != before


def test_sum_of_words_modulo_two_to_the_64():
    assert sum_words(np.array([2**64 - 1, 3], np.uint64)) == 2
    assert sum_words(np.array([1, 0, 5], np.int32)) == 1 + 5
    assert sum_words(np.empty(0, np.float32)) == 0
    assert sum_words(np.array([True, False, True])) == 1 + 2**16
