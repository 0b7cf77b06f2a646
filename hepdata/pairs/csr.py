"""Compressed sparse rows: building and reshaping pair lists.

Axes: N points, E pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PairList


def pack_rows(counts: NDArray[Any], partners: NDArray[Any]) -> PairList:
    """A pair list from the number of partners of every point and all partners, row after row."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=ptr[1:])
    return PairList(ptr, np.ascontiguousarray(partners, dtype=np.int32))


def pair_groups(group: NDArray[np.int64], is_paired: NDArray[np.bool_]) -> PairList:
    """All ordered pairs of two different points in the same group.

    Args:
        group: (N,) label of each point.
        is_paired: (N,) points that take part; others have empty rows.
    """
    member = np.flatnonzero(is_paired)
    order = member[np.argsort(group[member], kind="stable")]  # groups one after the other, ascending inside
    start = np.flatnonzero(np.r_[True, group[order][1:] != group[order][:-1]]) if len(order) else order
    size = np.diff(np.r_[start, len(order)])
    # Every point is paired with its whole group; the pair with itself is removed below.
    row_size = np.repeat(size, size)
    row_start = np.repeat(start, size)
    anchor = np.repeat(order, row_size)
    within = np.arange(len(anchor)) - np.repeat(np.cumsum(row_size) - row_size, row_size)
    partner = order[np.repeat(row_start, row_size) + within]
    is_other = partner != anchor
    counts = np.zeros(len(group), dtype=np.int64)
    counts[order] = row_size - 1
    by_anchor = np.argsort(anchor[is_other], kind="stable")
    return pack_rows(counts, partner[is_other][by_anchor])
