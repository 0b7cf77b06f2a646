from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.simulate.clusters import Cells
from hepdata.simulate.merging import merge_clusters


def make_cells(*clusters: dict[tuple[int, int], float]) -> Cells:
    rows = [(i, *at, value) for i, cells in enumerate(clusters) for at, value in cells.items()]
    cluster, ch0, ch1, value = (np.array(column) for column in zip(*rows, strict=True))
    return Cells(cluster, ch0, ch1, value.astype(float))


def as_sets(cells: Cells, kept: np.ndarray) -> dict[int, dict[tuple[int, int], float]]:
    merged: dict[int, dict[tuple[int, int], float]] = {int(row): {} for row in kept}
    for row, *at, value in zip(cells.cluster, cells.ch0, cells.ch1, cells.value, strict=True):
        merged[int(kept[row])][at[0], at[1]] = value
    return merged


def merge_slowly(cells: Cells, module: np.ndarray) -> dict[int, dict[tuple[int, int], float]]:
    """By the definition: join two groups as long as there are two that touch."""
    at: dict[int, dict[tuple[int, int], float]] = {}
    for row, *place, value in zip(cells.cluster, cells.ch0, cells.ch1, cells.value, strict=True):
        at.setdefault(int(row), {})[int(place[0]), int(place[1])] = float(value)
    groups = [[row] for row in sorted(at)]

    def touch(a: list[int], b: list[int]) -> bool:
        return module[a[0]] == module[b[0]] and any(
            max(abs(p[0] - q[0]), abs(p[1] - q[1])) <= 1 for i in a for j in b for p in at[i] for q in at[j]
        )

    joined = True
    while joined:
        joined = False
        for i, a in enumerate(groups):
            for j in range(i + 1, len(groups)):
                if touch(a, groups[j]):
                    a.extend(groups.pop(j))
                    joined = True
                    break
    merged = {}
    for group in groups:
        leader = max(sorted(group), key=lambda row: sum(at[row].values()))
        total: dict[tuple[int, int], float] = {}
        for row in group:
            for place, value in at[row].items():
                total[place] = total.get(place, 0.0) + value
        merged[leader] = total
    return merged


def test_clusters_that_share_a_cell_become_one_of_the_larger():
    cells = make_cells({(3, 5): 1.0, (3, 6): 1.0}, {(3, 6): 0.5, (3, 7): 2.0}, {(9, 9): 0.1})
    merged, kept = merge_clusters(cells, np.array([4, 4, 4]))
    assert as_sets(merged, kept) == {1: {(3, 5): 1.0, (3, 6): 1.5, (3, 7): 2.0}, 2: {(9, 9): 0.1}}


def test_corners_touch_and_modules_do_not():
    cells = make_cells({(1, 1): 1.0}, {(2, 2): 2.0}, {(1, 2): 3.0}, {(2, 4): 4.0})
    _, kept = merge_clusters(cells, np.array([0, 0, 1, 0]))
    assert kept.tolist() == [1, 2, 3]


def test_a_crossing_without_cells_leaves_nothing():
    cells = make_cells({(1, 1): 1.0}, {}, {(5, 5): 1.0})
    merged, kept = merge_clusters(cells, np.array([0, 0, 0]))
    assert kept.tolist() == [0, 2]
    assert merged.cluster.tolist() == [0, 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 25), st.integers(1, 12))
def test_merging_equals_its_definition(seed, n, width):
    rng = np.random.default_rng(seed)
    # Values that add up exactly, and clusters of different charge
    cluster = np.concatenate([np.arange(n), rng.integers(0, n, 2 * n)])
    ch0, ch1 = rng.integers(0, width, (2, len(cluster)))
    unique = np.unique(np.stack([cluster, ch0, ch1]), axis=1)
    cells = Cells(*unique, 2.0 ** rng.permutation(unique.shape[1]))
    module = rng.integers(0, 3, n)
    # Cells of one cluster touch: the definition joins clusters, not pieces of one.
    merged, kept = merge_clusters(cells, module)
    assert as_sets(merged, kept) == merge_slowly(cells, module)
    assert (np.diff(merged.cluster) >= 0).all()
