"""Counts of columns against their plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hepdata.cloud import PairList, PointCloud
from hepdata.storage.dataset.statistics import ColumnStatistics, Statistics, add_up, count_cloud


def count(*parts):
    clouds = [PointCloud("pileup", 0, 0, {"values": values}) for values in parts]
    return add_up(count_cloud(cloud) for cloud in clouds).columns["values"]


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


def test_counts_of_clouds_add_up():
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
    together = add_up(count_cloud(cloud) for cloud in clouds)
    assert together == count_cloud(clouds[0]) + (count_cloud(clouds[1]) + count_cloud(clouds[2]))
    assert (together.n_points_min, together.n_points_max) == (0, 300)
    assert together.n_positives == 305
    assert add_up([]) == Statistics()
