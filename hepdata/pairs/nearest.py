"""The nearest points of other groups, exactly, for all points of a cloud at once.

In: points in the plane, or on a cylinder, with a group each; out: for every point its K nearest points of
other groups, as a pair list. Points are taken in blocks that are compact in the plane; one bound on the
search radius holds for a whole block (triangle inequality from its centre). The work is then a few operations
on small dense tables instead of a tree search for every point. The tables are float32; rows in which rounding
could change the result are computed again in float64.
Axes: N points, B points of a block, M candidates of a block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hepdata.angles import TWO_PI, delta_phi, wrap_phi
from hepdata.cloud import PairList
from hepdata.features.curve import curve_order
from hepdata.pairs.csr import pack_rows

BLOCK = 32
LARGE_GROUP = 64
# Distances that differ by less are equal, and the lower index wins: rounding must not decide.
TIE = 1e-12


def find_nearest_others(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    group: NDArray[np.int64],
    n_nearest: int,
    *,
    is_periodic: bool,
    radius: float = np.inf,
) -> PairList:
    """Every point with its nearest points of other groups, at most `n_nearest`, closer than `radius`.

    Args:
        eta: (N,) first coordinate.
        phi: (N,) second coordinate, an angle where `is_periodic`.
        group: (N,) points of the same group are not neighbours of each other.
        n_nearest: K.
        is_periodic: Whether φ wraps around.
        radius: Largest distance of a neighbour.
    """
    n_points = len(group)
    if not n_points:
        return pack_rows(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
    order = curve_order(eta, phi)
    x, y = (np.asarray(values, dtype=np.float64)[order] for values in (eta, phi))
    if is_periodic:
        y = np.asarray(wrap_phi(y), dtype=np.float64)
    index = order.astype(np.int32)
    blocks = _Blocks(x, y, group[order], index, n_nearest, is_periodic)
    counts = np.empty(n_points, dtype=np.int64)
    partners = np.empty(n_points * min(n_nearest, n_points - 1), dtype=np.int32)
    end = 0
    for first in range(0, n_points, BLOCK):
        is_near, candidates, counts[first : first + BLOCK] = blocks.select(first // BLOCK, radius)
        table = np.broadcast_to(index[candidates], is_near.shape)
        found = np.compress(is_near.ravel(), table.ravel())
        partners[end : end + len(found)] = found
        end += len(found)
    if (order[1:] > order[:-1]).all():
        return pack_rows(counts, partners[:end])
    return _restore_order(counts, partners[:end], order)


class _Blocks:
    """The points of a cloud, along the curve, in compact blocks of consecutive points.

    Args:
        x: (N,) first coordinate, along the curve.
        y: (N,) second coordinate.
        group: (N,) group of each point.
        index: (N,) number of each point, by which ties are broken.
        n_nearest: K.
        is_periodic: Whether y is an angle in [−π, π).
    """

    def __init__(
        self,
        x: NDArray[np.floating],
        y: NDArray[np.floating],
        group: NDArray[np.int64],
        index: NDArray[np.int32],
        n_nearest: int,
        is_periodic: bool,
    ) -> None:
        self.x, self.y, self.index = x, y, index
        _, member, size = np.unique(group, return_inverse=True, return_counts=True)
        self.group = member.astype(np.int32)  # compared in every table: half the bytes of an id
        self.n_nearest, self.is_periodic = n_nearest, is_periodic
        starts = np.arange(0, len(x), BLOCK)
        self.x_centre, self.x_half = _middle(x, starts)
        self.y_centre, self.y_half = _middle(y, starts)
        self.reach = np.hypot(self.x_half, self.y_half)
        self.bound = self._bound_distances(size)
        # The tables are reused: allocating them for every block takes longer than the arithmetic.
        self._tables = np.empty((2, 0), dtype=np.float32)

    def _bound_distances(self, size: NDArray[np.int64]) -> NDArray[np.float64]:
        """For every block a distance from its centre within which every point has at least K + 1 others.

        Points of large groups (noise) are not counted: they are no neighbours of many of the points.
        """
        is_small = size <= LARGE_GROUP
        is_counted = is_small[self.group]
        n_needed = self.n_nearest + 1 + (int(size[is_small].max()) if is_small.any() else 0)
        if np.count_nonzero(is_counted) < n_needed:
            return np.full(len(self.reach), np.inf)
        tree = cKDTree(
            self._on_box(self.x[is_counted], self.y[is_counted]),
            boxsize=[0.0, TWO_PI] if self.is_periodic else None,
        )
        distance, _ = tree.query(self._on_box(self.x_centre, self.y_centre), k=[n_needed])
        return np.asarray(distance[:, 0])

    def select(
        self, block: int, radius: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """The neighbours of the points of one block.

        Returns:
            (B, M) which candidates are neighbours, (M,) positions of the candidates along the curve,
            ascending, and (B,) number of neighbours.
        """
        rows = np.arange(block * BLOCK, min((block + 1) * BLOCK, len(self.x)))
        reach = self.reach[block]
        # All neighbours of a point are within `search` of it, hence within `search + reach` of the centre.
        search = min(self.bound[block] + reach, radius)
        candidates, x, y = self._find_candidates(block, search + reach + TIE)
        squared, scratch = self._square_distances(block, rows, x, y, wraps=search + 2 * reach >= np.pi)
        np.copyto(squared, np.inf, where=self.group[rows, None] == self.group[candidates])
        # Bound on the rounding error of a float32 distance: 3 × 2⁻²⁴ of the largest coordinate, with a
        # margin.
        error = 1e-6 * (max(np.abs(x).max(initial=0.0), np.abs(y).max(initial=0.0)) + reach)
        is_near, n_near, is_unsure = _take_nearest(squared, scratch, self.n_nearest, radius, error)
        for row in np.flatnonzero(is_unsure):
            is_near[row] = self._select_exactly(rows[row], candidates, radius)
            n_near[row] = np.count_nonzero(is_near[row])
        return is_near, candidates, n_near

    def _square_distances(
        self,
        block: int,
        rows: NDArray[np.int64],
        x: NDArray[np.floating],
        y: NDArray[np.floating],
        *,
        wraps: bool,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(B, M) float32, relative to the block's centre for precision; and a second table as workspace."""
        squared, step = self._take_tables((len(rows), len(x)))
        x_row = (self.x[rows] - self.x_centre[block]).astype(np.float32)
        y_row = (self.y[rows] - self.y_centre[block]).astype(np.float32)
        np.subtract(x_row[:, None], x.astype(np.float32), out=squared)
        np.subtract(y_row[:, None], y.astype(np.float32), out=step)
        if self.is_periodic and wraps:
            np.copyto(step, delta_phi(step, np.zeros(1, dtype=np.float32)))
        np.multiply(squared, squared, out=squared)
        np.multiply(step, step, out=step)
        squared += step
        return squared, step

    def _select_exactly(self, row: int, candidates: NDArray[np.int64], radius: float) -> NDArray[np.bool_]:
        """The neighbours of one point in float64; ties go to the lowest indices."""
        step = self.y[candidates] - self.y[row]
        step = delta_phi(step, np.zeros(1)) if self.is_periodic else step
        distance = np.hypot(self.x[candidates] - self.x[row], step)
        distance[self.group[candidates] == self.group[row]] = np.inf
        is_near = distance < np.inf
        if np.count_nonzero(is_near) > self.n_nearest:
            last = np.partition(distance, self.n_nearest - 1)[self.n_nearest - 1]
            is_near = distance < last - TIE
            level = np.flatnonzero(np.abs(distance - last) <= TIE)
            n_wanted = self.n_nearest - np.count_nonzero(is_near)
            is_near[level[np.argsort(self.index[candidates[level]])[:n_wanted]]] = True
        return np.asarray(is_near & (distance < radius))

    def _find_candidates(
        self, block: int, distance: float
    ) -> tuple[NDArray[np.int64], NDArray[np.floating], NDArray[np.floating]]:
        """Positions of all points within a distance of the block's centre, and their offsets from it."""
        # If the search does not cross ±π, no difference in φ needs to be wrapped.
        crosses = self.is_periodic and abs(self.y_centre[block]) + distance >= np.pi
        x_gap, y_gap = self._steps(self.x_centre, self.y_centre, block, crosses)
        x_gap = np.maximum(np.abs(x_gap) - self.x_half, 0.0)
        y_gap = np.maximum(np.abs(y_gap) - self.y_half, 0.0)
        near = np.flatnonzero(x_gap * x_gap + y_gap * y_gap <= distance * distance)
        positions = (near[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        positions = positions[: np.searchsorted(positions, len(self.x))]
        x, y = self._steps(self.x[positions], self.y[positions], block, crosses)
        is_inside = x * x + y * y <= distance * distance
        return positions[is_inside], x[is_inside], y[is_inside]

    def _steps(
        self, x: NDArray[np.floating], y: NDArray[np.floating], block: int, crosses: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Offsets of points from a block's centre, wrapped in φ if the search may cross ±π."""
        y_step = y - self.y_centre[block]
        return x - self.x_centre[block], delta_phi(y_step, np.zeros(1)) if crosses else y_step

    def _take_tables(self, shape: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        size = shape[0] * shape[1]
        if self._tables.shape[1] < size:
            self._tables = np.empty((2, size), dtype=np.float32)
        return self._tables[0, :size].reshape(shape), self._tables[1, :size].reshape(shape)

    def _on_box(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.float64]:
        """(points, 2), with the angle in [0, 2π) as the periodic tree requires."""
        if self.is_periodic:
            y = y + np.pi
            y = np.where((y >= 0) & (y < TWO_PI), y, 0.0)
        return np.stack([x, y], axis=1)


def _take_nearest(
    squared: NDArray[np.float32], scratch: NDArray[np.float32], n_nearest: int, radius: float, error: float
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
    """(B, M) the nearest of every row, (B,) how many, and (B,) whether rounding may have mattered."""
    if squared.shape[1] > n_nearest:
        np.copyto(scratch, squared)
        scratch.partition(n_nearest - 1, axis=1)
        last = np.sqrt(scratch[:, n_nearest - 1])
    else:
        last = np.full(len(squared), np.inf, dtype=np.float32)
    limit = np.minimum((last.astype(np.float64) + 2 * error) ** 2, np.finfo(np.float32).max)
    is_near = squared <= limit.astype(np.float32)[:, None]
    n_near = np.count_nonzero(is_near, axis=1)
    is_unsure = n_near > n_nearest
    edge = np.flatnonzero(last + 3 * error >= radius)
    if len(edge):
        inner, outer = np.float32(max(radius - 2 * error, 0.0) ** 2), np.float32((radius + 2 * error) ** 2)
        is_near[edge] &= squared[edge] < outer
        n_near[edge] = np.count_nonzero(is_near[edge], axis=1)
        is_unsure[edge] |= (is_near[edge] & (squared[edge] > inner)).any(axis=1)
    return is_near, n_near, is_unsure


def _middle(
    values: NDArray[np.floating], starts: NDArray[np.int64]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Centre and half width of each block's interval."""
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return 0.5 * (low + high), 0.5 * (high - low)


def _restore_order(
    counts: NDArray[np.int64], partners: NDArray[np.int32], order: NDArray[np.int64]
) -> PairList:
    """Reorder rows from the order along the curve to the order of the points, ascending."""
    anchor = np.repeat(order, counts)
    by_row = np.lexsort((partners, anchor))
    restored = np.empty_like(counts)
    restored[order] = counts
    return pack_rows(restored, partners[by_row])
