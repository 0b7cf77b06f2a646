"""Counts of columns against their plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hepdata.cloud import PairList, PointCloud
from hepdata.storage.dataset.statistics import ColumnStatistics, Tally, add_up, count_cloud


def count(*parts):
    tally = Tally()
    for values in parts:
        tally.add(PointCloud("pileup", 0, 0, {"values": values}))
    return tally.total().columns["values"]


@given(
    st.sampled_from(["f4", "i4", "i8", "?"]).flatmap(
        lambda dtype: st.lists(hnp.arrays(dtype, st.integers(0, 40)), min_size=1, max_size=3)
    )
)
def test_a_column_is_counted_by_its_definition(parts):
    values = np.concatenate(parts)
    finite = values[np.isfinite(values)]
    found = count(*parts)
    assert found.n_not_finite == len(values) - len(finite)
    assert found.minimum == (float(min(finite)) if len(finite) else None)
    assert found.maximum == (float(max(finite)) if len(finite) else None)
    sums = [part[np.isfinite(part)].sum(dtype=np.float64) for part in parts]
    assert found.total == float(sum(sums))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_nothing_finite(odd):
    assert count(np.full(3, odd, np.float32)) == ColumnStatistics(n_not_finite=3)


def test_clouds_counted_together_are_those_counted_apart():
    rng = np.random.default_rng(0)
    clouds = []
    for number, n in enumerate((5, 0, 300)):
        columns = {
            "pt": rng.normal(size=n).astype(np.float32),
            "is_scored": rng.random(n) < 0.5,
            "is_leading": rng.random(n) < 0.5,
        }
        pairs = PairList(np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32))
        clouds.append(PointCloud("pileup", number, 0, columns, pairs, pairs))
    together = Tally()
    for cloud in clouds:
        together.add(cloud)
    assert together.total() == add_up([count_cloud(cloud) for cloud in clouds])
    assert (together.total().n_points_min, together.total().n_points_max) == (0, 300)
    assert together.total().n_positives == 305
    assert Tally().total() == add_up([])
