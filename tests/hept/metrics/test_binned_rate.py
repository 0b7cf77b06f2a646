import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hept.metrics.binned_rate import ONE_SIGMA, BinnedRate, count_in_bins


@given(n_all=st.integers(1, 300), data=st.data(), level=st.sampled_from([ONE_SIGMA, 0.95]))
def test_intervals_are_those_of_the_exact_binomial_test(n_all, data, level):
    n_passed = data.draw(st.integers(0, n_all))
    rate = BinnedRate(np.array([n_passed]), np.array([n_all]))
    expected = binomtest(n_passed, n_all).proportion_ci(level, method="exact")
    (low,), (high,) = rate.interval(level)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert low <= rate.value[0] <= high


def test_hand_counted_bins():
    value, has_passed = np.array([0.1, 0.2, 1.5, 7.0]), np.array([True, False, True, True])
    rate = count_in_bins(value, has_passed, np.array([0.0, 1.0, 2.0, 3.0]))
    assert (rate.n_passed.tolist(), rate.n_all.tolist()) == ([1, 1, 0], [2, 1, 0])
    np.testing.assert_array_equal(rate.value, [0.5, 1.0, np.nan])
    low, high = rate.interval()
    # One of one: (1 − p)¹ = tail, so p = tail.
    assert (low[1], high[1]) == (pytest.approx((1 - ONE_SIGMA) / 2), 1.0)
    assert np.isnan([low[2], high[2]]).all()
