"""Histograms against numpy, and bins that suit the column."""

import numpy as np
import pytest

from hepdata.pictures.histograms import make_histogram, whole_edges
from hepdata.schema import Column
from hepdata.storage.dataset.statistics import ColumnStatistics


def make(dtype, low, high, n_groups=1):
    return make_histogram(
        Column("x", dtype, "", "anything"), ColumnStatistics(minimum=low, maximum=high), n_groups
    )


def test_every_value_is_counted_in_its_group():
    rng = np.random.default_rng(0)
    histogram = make("float32", -3.0, 4.0, n_groups=2)
    values, group = rng.uniform(-3, 4, 1000).astype(np.float32), rng.integers(0, 2, 1000)
    values[0], values[1] = -3.0, 4.0
    for part in (slice(0, 300), slice(300, 1000)):
        histogram.fill(values[part], group[part])
    for number in (0, 1):
        expected = np.histogram(values[group == number], bins=histogram.edges)[0]
        np.testing.assert_array_equal(histogram.counts[number], expected)
    assert histogram.counts.sum() == 1000


def test_heavy_tails_get_logarithmic_bins_that_hold_both_ends():
    low, high = float(np.float32(0.00031)), float(np.float32(87.4533))
    histogram = make("float32", low, high)
    assert histogram.is_log
    histogram.fill(np.array([low, high], np.float64), np.zeros(2, int))
    assert histogram.counts.sum() == 2


@pytest.mark.parametrize(
    ("dtype", "low", "high", "n_bins"), [("int32", -1, 1, 3), ("bool", 0, 0, 2), ("int32", 0, 7, 8)]
)
def test_whole_numbers_get_a_bar_each(dtype, low, high, n_bins):
    histogram = make(dtype, low, high)
    assert histogram.is_bars
    assert len(histogram.edges) - 1 == n_bins
    histogram.fill(np.array([low, high]), np.zeros(2, int))
    assert histogram.counts.sum() == 2


def test_many_whole_numbers_are_binned():
    assert not make("int32", 0, 5000).is_bars


def test_a_constant_column_and_values_that_are_not_finite():
    histogram = make("float32", 0.3, 0.3)
    histogram.fill(np.array([0.3, np.nan, np.inf]), np.zeros(3, int))
    assert histogram.counts.sum() == 1


def test_a_column_without_values():
    assert make("float32", None, None).edges[0] == 0.0


@pytest.mark.parametrize(("low", "high"), [(0, 0), (7, 7), (0, 39), (0, 40), (-3, 250), (9000, 12345)])
def test_counts_get_bins_of_whole_numbers(low, high):
    every = np.arange(low, high + 1)
    edges = whole_edges(every)
    counts = np.histogram(every, bins=edges)[0]
    assert counts.sum() == len(every)
    assert len(counts) <= 40
    # Even: only the last bin may reach beyond the largest number.
    assert len(set(counts[:-1].tolist())) <= 1
    assert not np.isin(edges, every).any()


def test_counts_of_nothing():
    np.testing.assert_array_equal(whole_edges(np.empty(0, int)), [-0.5, 0.5])
