import numpy as np

from hepdata.pairs.csr import pack_rows, pair_groups


def test_rows_by_hand():
    pairs = pack_rows(np.array([2, 0, 1]), np.array([1, 2, 0]))
    assert pairs.ptr.tolist() == [0, 2, 2, 3]
    assert pairs.ptr.dtype == pairs.idx.dtype == np.int32


def test_groups_by_hand():
    group = np.array([5, 9, 5, 0, 9, 5, 3])
    pairs = pair_groups(group, group != 0)
    assert [pairs.row(i).tolist() for i in range(7)] == [[2, 5], [4], [0, 5], [], [1], [0, 2], []]


def test_no_points():
    pairs = pair_groups(np.array([], dtype=np.int64), np.array([], dtype=bool))
    assert (pairs.ptr.tolist(), pairs.idx.tolist()) == ([0], [])
