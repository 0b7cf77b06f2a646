"""Merge clusters whose cells touch: a sensor reads them out as one.

In: the cells of every crossing and the module it crossed. Out: fewer clusters, and for each the crossing that
left most of its charge, which is its truth. Axes: n clusters before, m after, N cells.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .clusters import Cells
from .detector import FloatArray, IntArray

# Half of the eight neighbours of a cell; the other half sees the same pairs from the other side.
_NEIGHBOURS = ((0, 1), (1, -1), (1, 0), (1, 1))


def merge_clusters(cells: Cells, module: IntArray) -> tuple[Cells, IntArray]:
    """Join the clusters of a module that share a cell or have neighbouring ones, corners included.

    Args:
        cells: Cells of n clusters.
        module: (n,) the module of each cluster.

    Returns:
        The cells of the m joined clusters, charges of shared cells added; and for each joined cluster the row
        of the cluster with the largest charge. Both are ordered by that row.
    """
    n = len(module)
    # One unused row and column around each module keep its cells apart from those of the next.
    rows, columns = (int(c.max(initial=0)) + 3 for c in (cells.ch0, cells.ch1))
    key = (module[cells.cluster] * rows + cells.ch0 + 1) * columns + cells.ch1 + 1
    unique, cell_of = np.unique(key, return_inverse=True)
    group = _join(cells.cluster, cell_of, unique, columns, n)

    charge = np.bincount(cells.cluster, cells.value, n)
    order = np.lexsort((np.arange(n), -charge, group))
    leaders = order[np.append(True, group[order][1:] != group[order][:-1])]
    leaders = leaders[np.isin(leaders, cells.cluster)]  # a crossing without a cell leaves no cluster
    leaders = np.sort(leaders)
    rank = np.empty(n, dtype=np.int64)
    rank[group[leaders]] = np.arange(len(leaders))

    first = np.zeros(len(unique), dtype=np.int64)
    first[cell_of] = np.arange(len(key))
    cluster = rank[group[cells.cluster[first]]]
    by_cluster = np.argsort(cluster, kind="stable")
    first = first[by_cluster]
    total: FloatArray = np.bincount(cell_of, cells.value, len(unique))[by_cluster].astype(np.float64)
    return Cells(cluster[by_cluster], cells.ch0[first], cells.ch1[first], total), leaders


def _join(cluster: IntArray, cell_of: IntArray, unique: IntArray, columns: int, n: int) -> IntArray:
    """The group (n,) of every cluster: clusters are joined through shared and neighbouring cells."""
    owner = np.zeros(len(unique), dtype=np.int64)
    owner[cell_of] = cluster
    a, b = [cluster], [owner[cell_of]]
    for step in _NEIGHBOURS:
        wanted = unique + step[0] * columns + step[1]
        at = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
        found = np.flatnonzero(unique[at] == wanted)
        a.append(owner[found])
        b.append(owner[at[found]])
    rows, others = np.concatenate(a), np.concatenate(b)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, others)), shape=(n, n))
    _, group = connected_components(graph, directed=False)
    groups: IntArray = group.astype(np.int64)
    return groups
