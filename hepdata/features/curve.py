"""The order in which points are stored: along a Hilbert curve in the η–φ plane.

Points that are near each other get indices that are near each other, so that pair lists compress and
neighbour searches walk through memory in order. In: η and φ of N points; out: a permutation of them.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi

# One fixed square for all events, φ and η on the same scale: distances are Euclidean in (η, φ).
SIDE = 16.0
BITS = 16


def curve_order(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    ties: NDArray[np.floating] | None = None,
    offsets: NDArray[np.integer] | None = None,
) -> NDArray[np.int64]:
    """The permutation that sorts points along a Hilbert curve in (η, φ).

    η beyond ±8, infinite η included, counts as ±8.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth, any period.
        ties: (N,) orders points in the same cell of the curve (2⁻¹² wide), ascending; without it they keep
            their order.
        offsets: Boundaries of concatenated clouds, 0 and N included; each cloud is sorted on its own.

    Returns:
        (N,) indices such that `eta[order]`, `phi[order]` follow the curve.
    """
    phi = np.asarray(phi)
    if len(phi) and float(np.abs(phi).max()) >= np.pi:
        phi = wrap_phi(phi.astype(np.float64))
    distance = _hilbert_distance(_find_cells(np.asarray(eta)), _find_cells(phi))
    # Distance and index in one integer: sorting these is stable, and several times faster than argsort.
    keys = distance.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(keys), dtype=np.uint64)
    borders = [0, len(keys)] if offsets is None else offsets.tolist()
    for begin, end in pairwise(borders):
        keys[begin:end].sort()
    order = (keys & np.uint64(0xFFFFFFFF)).view(np.int64)
    if ties is not None:
        _order_ties(order, keys, ties, borders[1:-1])
    return order


def _order_ties(
    order: NDArray[np.int64], keys: NDArray[np.uint64], ties: NDArray[np.floating], borders: list[int]
) -> None:
    """Reorder in place the few points that have the same distance."""
    is_first = np.ones(len(order), dtype=bool)
    np.greater((keys[1:] ^ keys[:-1]), np.uint64(0xFFFFFFFF), out=is_first[1:])
    is_first[[border for border in borders if border < len(order)]] = True
    if is_first.all():
        return
    is_shared = ~is_first
    is_shared[:-1] |= is_shared[1:]
    at = np.flatnonzero(is_shared)
    order[at] = order[at][np.lexsort((ties[order[at]], np.cumsum(is_first[at])))]


def _find_cells(values: NDArray[np.floating]) -> NDArray[np.int32]:
    """(N,) column or row of the curve's grid; the cell width is a power of two, hence exact in float32."""
    half = 1 << (BITS - 1)
    cells = values * values.dtype.type((1 << BITS) / SIDE)
    np.clip(cells, -half, half - 1, out=cells)
    np.floor(cells, out=cells)
    return cells.astype(np.int32) + np.int32(half)


def _hilbert_distance(x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.uint32]:
    """The position along the curve of each cell (x, y) of a 2^BITS × 2^BITS grid.

    The curve inside a quadrant is the whole curve, mirrored or transposed. Which of the four variants
    applies is the state of an automaton that reads the bits of x and y from the top, here eight of each at a
    time.
    """
    first, second = _make_tables()
    upper = (x & 0xFF00) | (y >> 8)
    lower = ((x & 0xFF) << 8) | (y & 0xFF)
    distance = first.take(upper)
    state = (distance & np.uint32(0xFFFF)).view(np.int32) << 16
    distance &= np.uint32(0xFFFF0000)
    distance |= second.take(state | lower)
    return distance


@cache
def _make_tables() -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Lookup tables from eight bits of x and of y to digits of the distance.

    Returns:
        For the upper bits, read in state 0: the digits in the high half, the next state in the low half. For
        the lower bits, indexed by state (bit 1: mirrored, bit 0: transposed), x and y: the digits.
    """
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
        # In the lower quadrants the curve is transposed, the right one about the other diagonal.
        state = np.where(upper == 1, state, state ^ (1 | (2 * right)))
    start = slice(1 << (2 * n_bits))
    return (digits[start].astype(np.uint32) << 16) | state[start].astype(np.uint32), digits.astype(np.uint16)
