"""PUPPI weights: the classical way to tell pileup from the leading collision, as a baseline.

Bertolini, Harris, Low, Tran, JHEP 10 (2014) 059, https://arxiv.org/abs/1407.6013, with the cone of 0.4 that
CMS uses (https://arxiv.org/abs/2006.00049). A particle is likely from the leading collision where particles
of that collision are close:

    α_i = log Σ_j (pT_j / ΔR_ij)²    over j ≠ i with R_min < ΔR_ij < R₀

Within the tracker (|η| < 2.5), j are the charged particles of the leading collision, and the charged pileup
of the same event shows how α is spread without signal. Beyond it, j are all particles, and all of them in
that region show the spread. The weight is the χ² probability (one degree of freedom) that α is so far above
the median; small weights and soft weighted neutrals are then removed.

Axes: N particles of one event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import chi2

from hepdata.angles import delta_phi

R_0 = 0.4
R_MIN = 0.02
MIN_WEIGHT = 0.1
TRACKER_ETA = 2.5
# Charged particles within the tracker per soft collision at 13–14 TeV, by which collisions are counted.
CHARGED_PER_COLLISION = 32.0


@dataclass(frozen=True)
class Region:
    """A range of |η|, and the weighted pT in GeV of a neutral to keep: `cut + slope · collisions`."""

    eta_min: float
    eta_max: float
    cut: float
    slope: float


REGIONS = (Region(0.0, TRACKER_ETA, 0.1, 0.007), Region(TRACKER_ETA, np.inf, 0.5, 0.011))


def count_collisions(
    eta: NDArray[np.floating], charge: NDArray[np.integer], is_leading: NDArray[np.bool_]
) -> float:
    """Soft collisions of an event, estimated from its charged pileup within the tracker."""
    is_pileup = (charge != 0) & ~is_leading.astype(bool) & (np.abs(eta) < TRACKER_ETA)
    return float(is_pileup.sum()) / CHARGED_PER_COLLISION


def weigh_puppi(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    pt: NDArray[np.floating],
    charge: NDArray[np.integer],
    is_leading: NDArray[np.bool_],
    *,
    radius: float = R_0,
    n_collisions: float | None = None,
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
        n_collisions: Soft collisions; see `count_collisions` where not given.
    """
    is_charged, is_leading = charge != 0, is_leading.astype(bool)
    if n_collisions is None:
        n_collisions = count_collisions(eta, charge, is_leading)
    weight = np.where(is_charged, is_leading.astype(np.float64), 0.0)
    for region in REGIONS:
        is_here = (np.abs(eta) >= region.eta_min) & (np.abs(eta) < region.eta_max)
        neutral = np.flatnonzero(is_here & ~is_charged)
        if region.eta_min < TRACKER_ETA:
            source, control = is_charged & is_leading, is_here & is_charged & ~is_leading
        else:
            source, control = np.ones(len(eta), dtype=bool), is_here
        asked = np.flatnonzero(is_here & (control | ~is_charged))
        alpha = np.full(len(eta), -np.inf)
        alpha[asked] = _alpha(eta, phi, pt, source, asked, radius)
        found = _weigh(alpha[neutral], alpha[control])
        found[found < MIN_WEIGHT] = 0.0
        found[found * pt[neutral] < region.cut + region.slope * n_collisions] = 0.0
        weight[neutral] = found
    return weight


def _weigh(alpha: NDArray[np.float64], of_pileup: NDArray[np.float64]) -> NDArray[np.float64]:
    """The χ² probability of each α, given the α of pileup."""
    of_pileup = of_pileup[np.isfinite(of_pileup)]
    if len(of_pileup) == 0:
        # Nothing to compare with: whatever has a neighbour is kept.
        return np.isfinite(alpha).astype(np.float64)
    median = float(np.median(of_pileup))
    below = of_pileup[of_pileup <= median] - median
    spread = max(float(np.sqrt(np.mean(below**2))), 1e-6)
    excess = np.where(np.isfinite(alpha), alpha - median, -1.0)
    return np.where(excess > 0, chi2.cdf((excess / spread) ** 2, 1), 0.0)


def _alpha(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    pt: NDArray[np.floating],
    is_source: NDArray[np.bool_],
    asked: NDArray[np.int64],
    radius: float,
) -> NDArray[np.float64]:
    """α of the particles `asked`, −inf where no source is near."""
    total = np.zeros(len(asked))
    sources = np.flatnonzero(is_source)
    if len(sources) and len(asked):
        points = np.stack([eta, phi], axis=1).astype(np.float64)
        # φ is periodic: sources are also looked for one turn up and down.
        copies = np.concatenate([points[sources] + [0, turn] for turn in (0, -2 * np.pi, 2 * np.pi)])
        near = cKDTree(copies).query_ball_point(points[asked], radius)
        row = np.repeat(np.arange(len(asked)), [len(found) for found in near])
        partner = sources[np.concatenate([np.asarray(found, dtype=int) for found in near]) % len(sources)]
        one = asked[row]
        delta_r = np.hypot(eta[one] - eta[partner], delta_phi(phi[one], phi[partner]))
        counts = (one != partner) & (delta_r > R_MIN)
        np.add.at(total, row[counts], (pt[partner[counts]] / delta_r[counts]) ** 2)
    with np.errstate(divide="ignore"):
        return np.log(total)
