"""The order in which points are stored: along a Hilbert curve in the η–φ plane.

Points that are near each other get indices that are near each other, so that pair lists compress and
neighbour searches walk through memory in order. In: η and φ of N points; out: a permutation of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi

# One fixed square for all events, φ and η on the same scale: distances are Euclidean in (η, φ).
SIDE = 16.0
BITS = 16


def curve_order(eta: NDArray[np.floating], phi: NDArray[np.floating]) -> NDArray[np.int64]:
    """The permutation that lines points up along a Hilbert curve in (η, φ).

    Points in the same cell of the curve (2⁻¹² wide) keep the order in which they came. η beyond ±8, infinite
    η included, counts as ±8.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth, any period.

    Returns:
        (N,) indices such that `eta[order]`, `phi[order]` follow the curve.
    """
    n_cells = 1 << BITS
    half = SIDE / 2
    scale = n_cells / SIDE
    eta_cell = (np.clip(np.asarray(eta, dtype=np.float64), -half, half) + half) * scale
    phi_cell = (wrap_phi(np.asarray(phi, dtype=np.float64)) + half) * scale
    x = np.clip(eta_cell, 0, n_cells - 1).astype(np.int64)
    y = np.clip(phi_cell, 0, n_cells - 1).astype(np.int64)
    return np.argsort(_hilbert_distance(x, y), kind="stable")


def _hilbert_distance(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """How far along the curve each cell (x, y) of a 2^BITS × 2^BITS grid lies."""
    distance = np.zeros_like(x)
    for level in range(BITS - 1, -1, -1):
        size = 1 << level
        right = (x & size) != 0
        upper = (y & size) != 0
        # Quadrants in the order of the curve: lower left 0, upper left 1, upper right 2, lower right 3.
        distance = (distance << 2) | (3 * right.astype(np.int64) ^ upper.astype(np.int64))
        # The lower quadrants hold the curve turned: mirrored along a diagonal.
        flip = right & ~upper
        x = np.where(flip, size - 1 - (x & (size - 1)), x & (size - 1))
        y = np.where(flip, size - 1 - (y & (size - 1)), y & (size - 1))
        x, y = np.where(upper, x, y), np.where(upper, y, x)
    return distance
