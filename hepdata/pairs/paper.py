"""The pairs of the paper: same particle against the nearest points of other particles (Sec. 4.1).

In: η, φ and particle of N points; out: two pair lists. A point's positives are the other points of its
particle, its negatives the K nearest points of other particles in (η, φ), φ periodic. Noise (particle 0) has
negatives but no positives, and noise is no negative of noise: nothing is known about such a pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hepdata.angles import TWO_PI, delta_phi, wrap_phi
from hepdata.cloud import PairList
from hepdata.features.labels import NOISE
from hepdata.pairs.csr import pack_rows, pair_groups

# Rows searched at a time: bounds memory at a few tens of MB whatever the size of the cloud.
CHUNK = 4096
# Distances closer than this count as equal and the lower index wins, so that rounding never decides.
TIE = 1e-9


def pair_same_particle(particle_id: NDArray[np.int64]) -> PairList:
    """Every point with all other points of its particle; noise has none."""
    return pair_groups(particle_id, particle_id != NOISE)


def pair_nearest_others(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    particle_id: NDArray[np.int64],
    n_negatives: int,
) -> PairList:
    """Every point with its `n_negatives` nearest points of other particles, or all where there are fewer.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth.
        particle_id: (N,) particle of each point, 0 for noise.
        n_negatives: K.
    """
    points = _on_the_cylinder(eta, phi)
    n_points = len(points)
    is_noise = particle_id == NOISE
    n_own = _count_members(particle_id)
    counts = np.minimum(n_negatives, n_points - n_own)
    width = int(counts.max()) if n_points else 0
    partners = np.empty((n_points, width), dtype=np.int32)
    # Noise is a large group: its points search among the others only, instead of passing over it one by one.
    searches = (
        (np.flatnonzero(~is_noise), np.arange(n_points), n_own),
        (np.flatnonzero(is_noise), np.flatnonzero(~is_noise), np.zeros_like(n_own)),
    )
    for rows, searched, n_passed in searches:
        if not len(rows) or not len(searched) or not width:
            continue
        nearest = _NearestOthers(points, particle_id, searched)
        n_asked = min(n_negatives + 1 + int(n_passed[rows].max()), len(searched))
        step = max(1, CHUNK * 256 // n_asked)
        for first in range(0, len(rows), step):
            chunk = rows[first : first + step]
            found = nearest.find(chunk, counts[chunk], n_asked)[:, :width]
            partners[chunk, : found.shape[1]] = found
    if width and counts.min() == width:
        return pack_rows(counts, partners.ravel())
    return pack_rows(counts, partners[np.arange(width) < counts[:, None]])


class _NearestOthers:
    """Searches some of the points for the nearest ones of other particles."""

    def __init__(
        self, points: NDArray[np.float64], particle_id: NDArray[np.int64], searched: NDArray[np.int64]
    ) -> None:
        self.points = points
        self.particle_id = particle_id
        self.searched = searched.astype(np.int32)
        # A box of size 0 is none: η is not periodic.
        self.tree = cKDTree(points[searched], boxsize=[0.0, TWO_PI])

    def find(self, rows: NDArray[np.int64], counts: NDArray[np.int64], n_asked: int) -> NDArray[np.int32]:
        """(rows, n_asked): the `counts` nearest others of each row, ascending, then fillers.

        `n_asked` must leave room for one more than the count after the row's own particle is passed over.
        """
        distance, slot = self.tree.query(self.points[rows], k=np.arange(1, n_asked + 1))
        partner = self.searched[slot]
        is_other = self.particle_id[partner] != self.particle_id[rows][:, None]
        rank = np.cumsum(is_other, axis=1, dtype=np.int32)
        is_taken = is_other & (rank <= counts[:, None])
        chosen = np.where(is_taken, partner, np.int32(len(self.points)))
        for row in _find_ties(distance, rank, counts):
            last = distance[row][is_taken[row]][-1]
            chosen[row, : counts[row]] = self._break_tie(rows[row], counts[row], last)
            chosen[row, counts[row] :] = len(self.points)
        chosen.sort(axis=1)
        return chosen

    def _break_tie(self, row: int, count: int, last: float) -> NDArray[np.int32]:
        """The nearest others of a point where several lie at the `last` distance: lowest index first."""
        slots = np.sort(self.tree.query_ball_point(self.points[row], last + 2 * TIE))
        candidate = self.searched[slots]
        candidate = candidate[self.particle_id[candidate] != self.particle_id[row]]
        step = self.points[candidate] - self.points[row]
        distance = np.hypot(step[:, 0], delta_phi(step[:, 1], np.zeros(1)))
        nearer = candidate[distance < last - TIE]
        level = candidate[np.abs(distance - last) <= TIE]
        return np.concatenate([nearer, level])[:count]


def _find_ties(
    distance: NDArray[np.float64], rank: NDArray[np.int32], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Rows whose last taken and first left partner are equally far."""
    row = np.arange(len(rank))
    has_more = rank[:, -1] > counts
    last = distance[row, np.argmax(rank >= counts[:, None], axis=1)]
    following = distance[row, np.argmax(rank > counts[:, None], axis=1)]
    return np.flatnonzero(has_more & (counts > 0) & (following - last <= TIE))


def _on_the_cylinder(eta: NDArray[np.floating], phi: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N, 2): η and φ shifted to [0, 2π)."""
    turned = np.asarray(wrap_phi(np.asarray(phi, dtype=np.float64))) + np.pi
    return np.stack([np.asarray(eta, dtype=np.float64), np.where(turned < TWO_PI, turned, 0.0)], axis=1)


def _count_members(particle_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) points of each point's particle, itself included."""
    _, group, size = np.unique(particle_id, return_inverse=True, return_counts=True)
    return np.asarray(size[group], dtype=np.int64)
