"""Missing transverse momentum: particles and weights enter, errors of the event's sum leave.

Axes: E events.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# GeV: errors of the missing pT beyond this are its tail.
TAIL = 30.0


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


def describe_missing_pt(true: NDArray[np.floating], found: NDArray[np.floating]) -> dict[str, float]:
    """Figures of the missing pT of E events, (E, 2) each in GeV.

    Returns:
        `resolution` of a component (both pooled) with its statistical error; `parallel` and `perpendicular`,
        the resolution along and across the true missing pT; `scale`, the median of the found part along the
        true one divided by it, and its error; `tail`, the part of events whose error is longer than 30 GeV.
    """
    error = np.asarray(found, dtype=np.float64) - true
    length = np.hypot(true[:, 0], true[:, 1])
    known = length > 0
    axis = true[known] / length[known, None]
    parallel = np.sum(error[known] * axis, axis=1)
    perpendicular = error[known, 0] * -axis[:, 1] + error[known, 1] * axis[:, 0]
    scale = 1 + parallel / length[known]
    n = len(error)
    return {
        "resolution": resolution(error),
        # Of a width σ from 2n numbers: σ/√(4n).
        "resolution_error": resolution(error) / np.sqrt(4 * max(n, 1)),
        "parallel": resolution(parallel),
        "perpendicular": resolution(perpendicular),
        "scale": float(np.median(scale)) if known.any() else float("nan"),
        # Of a median: 1.25 σ/√n.
        "scale_error": 1.25 * resolution(scale) / np.sqrt(max(len(scale), 1)),
        "tail": float(np.mean(np.hypot(error[:, 0], error[:, 1]) > TAIL)) if n else float("nan"),
    }
