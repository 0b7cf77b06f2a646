"""The order in which points are stored: along a Hilbert curve in the η–φ plane.

Points that are near each other get indices that are near each other, so that pair lists compress and
neighbour searches walk through memory in order. In: η and φ of N points; out: a permutation of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi

# One fixed square for all events, φ and η on the same scale: distances are Euclidean in (η, φ).
SIDE = 16.0
BITS = 16


def curve_order(
    eta: NDArray[np.floating], phi: NDArray[np.floating], ties: NDArray[np.floating] | None = None
) -> NDArray[np.int64]:
    """The permutation that lines points up along a Hilbert curve in (η, φ).

    η beyond ±8, infinite η included, counts as ±8.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth, any period.
        ties: (N,) what orders points in the same cell of the curve (2⁻¹² wide), ascending; without it they
            keep the order in which they came.

    Returns:
        (N,) indices such that `eta[order]`, `phi[order]` follow the curve.
    """
    n_cells = 1 << BITS
    half = SIDE / 2
    scale = n_cells / SIDE
    eta_cell = (np.clip(np.asarray(eta, dtype=np.float64), -half, half) + half) * scale
    phi = np.asarray(phi, dtype=np.float64)
    if len(phi) and np.abs(phi).max() >= np.pi:
        phi = wrap_phi(phi)
    phi_cell = (phi + half) * scale
    x = np.minimum(eta_cell, n_cells - 1).astype(np.uint32)
    y = phi_cell.astype(np.uint32)
    # Distance and index in one number: a plain sort of it is stable, and several times faster than argsort.
    keys = (_hilbert_distance(x, y).astype(np.uint64) << np.uint64(32)) | np.arange(len(x), dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    if ties is not None:
        _order_ties(order, keys >> np.uint64(32), ties)
    return order


def _order_ties(order: NDArray[np.int64], distance: NDArray[np.uint64], ties: NDArray[np.floating]) -> None:
    """Reorder in place the points that share a distance; few do."""
    is_same = distance[1:] == distance[:-1]
    if not is_same.any():
        return
    shared = np.zeros(len(order), dtype=bool)
    shared[1:] |= is_same
    shared[:-1] |= is_same
    at = np.flatnonzero(shared)
    order[at] = order[at][np.lexsort((ties[order[at]], distance[at]))]


def _hilbert_distance(x: NDArray[np.uint32], y: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """How far along the curve each cell (x, y) of a 2^BITS × 2^BITS grid lies.

    The curve inside a quadrant is the whole curve mirrored or turned; which of the four ways applies is the
    state of a machine that reads the bits of x and y from the top, here eight of each at a time.
    """
    byte, eight = np.uint32(0xFF), np.uint32(8)
    upper = ((x >> eight) << eight) | (y >> eight)
    lower = ((x & byte) << eight) | (y & byte)
    digits, states = _make_tables()
    # The machine starts in state 0.
    first = digits[upper].astype(np.uint32)
    at = (states[upper].astype(np.uint32) << np.uint32(16)) | lower
    return np.asarray((first << np.uint32(16)) | digits[at], dtype=np.uint32)


@cache
def _make_tables() -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Digits and next state for every state (bit 1: mirrored, bit 0: turned) and eight bits of x and of y."""
    n_bits = 8
    state, x, y = (axis.ravel() for axis in np.indices((4, 1 << n_bits, 1 << n_bits), dtype=np.int32))
    digits = np.zeros_like(x)
    for level in range(n_bits - 1, -1, -1):
        right, upper = (x >> level) & 1, (y >> level) & 1
        is_turned, is_mirrored = (state & 1) == 1, (state & 2) == 2
        right, upper = np.where(is_turned, upper, right), np.where(is_turned, right, upper)
        right, upper = right ^ is_mirrored, upper ^ is_mirrored
        # Quadrants in the order of the curve: lower left 0, upper left 1, upper right 2, lower right 3.
        digits = (digits << 2) | (3 * right ^ upper)
        # The lower quadrants hold the curve turned about a diagonal, the right one about the other.
        state = np.where(upper == 1, state, state ^ (1 | (2 * right)))
    return digits.astype(np.uint16), state.astype(np.uint8)
