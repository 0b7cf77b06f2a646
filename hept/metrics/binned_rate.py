"""Rates in bins of a variable, with their uncertainties: counts enter, intervals leave.

Axes: B bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Part of a normal distribution within one standard deviation.
ONE_SIGMA = 0.682689492137


@dataclass(frozen=True)
class BinnedRate:
    """How many of the entries of each bin passed.

    Attributes:
        n_passed: (B,).
        n_all: (B,).
    """

    n_passed: NDArray[np.int64]
    n_all: NDArray[np.int64]

    @property
    def value(self) -> NDArray[np.float64]:
        """(B,) passed / all; NaN in empty bins."""
        with np.errstate(invalid="ignore"):
            return np.where(self.n_all > 0, self.n_passed / self.n_all, np.nan)

    def interval(self, level: float = ONE_SIGMA) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(B,) ends of the Clopper–Pearson interval, which covers the true rate at least at this level.

        Quantiles of beta distributions (Biometrika 26 (1934) 404); NaN in empty bins.
        """
        tail = (1 - level) / 2
        n_failed = self.n_all - self.n_passed
        # Where nothing, or everything, has passed the quantile is undefined and the interval ends at 0, or 1.
        low = np.where(self.n_passed == 0, 0.0, stats.beta.ppf(tail, self.n_passed, n_failed + 1))
        high = np.where(n_failed == 0, 1.0, stats.beta.isf(tail, self.n_passed + 1, n_failed))
        is_empty = self.n_all == 0
        return np.where(is_empty, np.nan, low), np.where(is_empty, np.nan, high)


def count_in_bins(
    value: NDArray[np.floating], has_passed: NDArray[np.bool_], edges: NDArray[np.floating]
) -> BinnedRate:
    """Count entries with these values, and those of them that passed."""
    return BinnedRate(np.histogram(value[has_passed], edges)[0], np.histogram(value, edges)[0])
