"""Calibration: how well probabilities agree with observed rates, and maps of scores to such probabilities.

Axes: N points, B bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

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


@dataclass(frozen=True)
class ScoreMap:
    """Calibrated probability of a point: sigmoid(slope · logit + offset + pt_slope · ln pT).

    Platt scaling (Adv. Large Margin Classif. 1999) with a term for pT, fitted on the validation split. The
    defaults change nothing.

    Attributes:
        slope: Factor of the logit.
        offset: Added.
        pt_slope: Factor of ln pT, with pT in GeV.
        pt_min: GeV, the softest point of the fit: the model was made for points from there on.
    """

    slope: float = 1.0
    offset: float = 0.0
    pt_slope: float = 0.0
    pt_min: float = np.inf

    def __call__(
        self, logits: NDArray[np.floating], pt: NDArray[np.floating] | None = None
    ) -> NDArray[np.float64]:
        """(N,) probabilities.

        Args:
            logits: (N,) outputs of the model.
            pt: (N,) in GeV.
        """
        values = self.slope * np.asarray(logits, dtype=np.float64) + self.offset
        return np.asarray(expit(values if pt is None else values + self.pt_slope * _log_pt(pt)))


UNCHANGED = ScoreMap()


def fit_score_map(
    logits: NDArray[np.floating], fraction: NDArray[np.floating], pt: NDArray[np.floating] | None = None
) -> ScoreMap:
    """The map of least cross-entropy; few points leave scores nearly as they are.

    Where pT is given, points count by it: a weight scales a momentum, and without it the many soft particles
    alone would decide about the hard ones that jets are made of.

    Args:
        logits: (N,) outputs of the model.
        fraction: (N,) true probabilities: labels, or fractions of energy.
        pt: (N,) in GeV.
    """
    known = np.isfinite(logits)
    if not known.any():
        return UNCHANGED
    x = np.asarray(logits, dtype=np.float64)[known]
    log_pt = np.zeros(len(x)) if pt is None else _log_pt(pt[known])
    inputs = np.stack([x, np.ones(len(x)), log_pt], axis=1)
    target, unchanged = fraction[known].astype(np.float64), np.array([1.0, 0.0, 0.0])
    counts = np.ones(len(x)) if pt is None else pt[known] / max(float(np.mean(pt[known])), 1e-3)

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z, change = inputs @ parameters, parameters - unchanged
        value = counts @ (np.logaddexp(0.0, z) - target * z) + change @ change / 2
        return float(value), inputs.T @ (counts * (expit(z) - target)) + change

    found = minimize(loss, unchanged, jac=True, method="BFGS").x
    slope, offset, pt_slope = (float(value) for value in (found if found[0] > 0 else unchanged))
    return ScoreMap(
        slope, offset, pt_slope, float(np.min(pt[known], initial=np.inf)) if pt is not None else np.inf
    )


def _log_pt(pt: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.log(np.maximum(np.asarray(pt, dtype=np.float64), 1e-3))
