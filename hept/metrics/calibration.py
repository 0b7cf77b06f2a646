"""Whether probabilities mean what they say: probabilities and labels enter, a curve and its error leave.

Axes: N points, B bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hept.metrics.binned_rate import BinnedRate

N_BINS = 15


@dataclass(frozen=True)
class Calibration:
    """Mean probability and observed rate in bins of probability.

    Attributes:
        edges: (B + 1,).
        mean: (B,) mean probability of the points of a bin, NaN where it is empty.
        rate: Positive points of each bin.
    """

    edges: NDArray[np.float64]
    mean: NDArray[np.float64]
    rate: BinnedRate

    @property
    def error(self) -> float:
        """Expected calibration error: mean of |observed rate − mean probability|, by the points of the bins.

        Naeini, Cooper, Hauskrecht, AAAI 2015.
        """
        n = self.rate.n_all
        if n.sum() == 0:
            return float("nan")
        return float(np.nansum(n * np.abs(self.rate.value - self.mean)) / n.sum())


def calibrate_curve(
    probability: NDArray[np.floating], is_positive: NDArray[np.bool_], *, n_bins: int = N_BINS
) -> Calibration:
    """Bin probabilities in [0, 1] in equal steps."""
    edges = np.linspace(0, 1, n_bins + 1)
    total, _ = np.histogram(probability, edges)
    passed, _ = np.histogram(probability[is_positive], edges)
    sums, _ = np.histogram(probability, edges, weights=probability.astype(np.float64))
    with np.errstate(invalid="ignore"):
        mean = np.where(total > 0, sums / total, np.nan)
    return Calibration(edges, mean, BinnedRate(passed, total))
