"""Missing transverse momentum: particles and weights enter, the error of the event's sum leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def missing_pt(
    px: NDArray[np.floating], py: NDArray[np.floating], weight: NDArray[np.floating]
) -> NDArray[np.float64]:
    """(2,) −Σ w·pT of one event, in GeV."""
    return -np.array([np.sum(weight * px, dtype=np.float64), np.sum(weight * py, dtype=np.float64)])


def resolution(errors: NDArray[np.floating]) -> float:
    """Half the width of the central 68.3 % of `errors` (one standard deviation of a normal distribution).

    NaN where there is nothing.
    """
    values = np.asarray(errors, dtype=np.float64).ravel()
    if len(values) == 0:
        return float("nan")
    low, high = np.quantile(values, [0.158655, 0.841345])
    return float(high - low) / 2
