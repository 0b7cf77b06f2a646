"""PUPPI-like weights: the classical way to tell pileup from the leading collision, as a baseline.

After Bertolini, Harris, Low, Tran (2014), https://arxiv.org/abs/1407.6013. A particle is likely from the
leading
collision where charged particles of that collision are close:

    α_i = log Σ_j (pT_j / ΔR_ij)²    over charged j ≠ i of the leading collision with R_min < ΔR_ij < R₀

The charged pileup of the same event shows how α is spread without signal; the weight of a neutral particle
is the χ² probability that its α is larger than that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import chi2

from hepdata.angles import delta_phi

R_0 = 0.4
R_MIN = 0.02


def weigh_puppi(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    pt: NDArray[np.floating],
    charge: NDArray[np.integer],
    is_leading: NDArray[np.bool_],
    *,
    radius: float = R_0,
) -> NDArray[np.float64]:
    """(N,) weights in [0, 1] of the particles of one event.

    Charged particles have the weight of their vertex, 0 or 1; only of them `is_leading` is used.

    Args:
        eta: (N,).
        phi: (N,).
        pt: (N,) in GeV.
        charge: (N,).
        is_leading: (N,) whether from the leading collision.
        radius: R₀.
    """
    is_charged = charge != 0
    alpha = _alpha(eta, phi, pt, is_charged & is_leading, radius)
    weight = np.where(is_charged, is_leading.astype(np.float64), 0.0)
    of_pileup = alpha[is_charged & ~is_leading & np.isfinite(alpha)]
    if len(of_pileup) == 0:
        # Nothing to compare with: whatever has a charged neighbour of the leading collision is kept.
        return np.where(is_charged, weight, np.isfinite(alpha).astype(np.float64))
    median = float(np.median(of_pileup))
    below = of_pileup[of_pileup <= median] - median
    spread = max(float(np.sqrt(np.mean(below**2))), 1e-6)
    excess = np.where(np.isfinite(alpha), alpha - median, -1.0)
    neutral = np.where(excess > 0, chi2.cdf((excess / spread) ** 2, 1), 0.0)
    return np.where(is_charged, weight, neutral)


def _alpha(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    pt: NDArray[np.floating],
    is_source: NDArray[np.bool_],
    radius: float,
) -> NDArray[np.float64]:
    """(N,) α, −inf where no source is near."""
    total = np.zeros(len(eta))
    sources = np.flatnonzero(is_source)
    if len(sources) and len(eta):
        points = np.stack([eta, phi], axis=1).astype(np.float64)
        # φ is periodic: sources are also looked for one turn up and down.
        copies = np.concatenate([points[sources] + [0, turn] for turn in (0, -2 * np.pi, 2 * np.pi)])
        tree = cKDTree(copies)
        near = tree.query_ball_point(points, radius)
        row = np.repeat(np.arange(len(eta)), [len(found) for found in near])
        partner = sources[np.concatenate([np.asarray(found, dtype=int) for found in near]) % len(sources)]
        delta_r = np.hypot(eta[row] - eta[partner], delta_phi(phi[row], phi[partner]))
        counts = (row != partner) & (delta_r > R_MIN)
        np.add.at(total, row[counts], (pt[partner[counts]] / delta_r[counts]) ** 2)
    with np.errstate(divide="ignore"):
        return np.log(total)
