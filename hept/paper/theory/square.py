"""A cloud with local interactions: points in a square, each interacting only with its nearest neighbours.

Axes: N points, K neighbours of each, Z bins of distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Floats = NDArray[np.float64]
CHUNK_VALUES = 8_000_000


@dataclass(frozen=True)
class Square:
    """Points, and the pairs for which the true kernel is not zero.

    Attributes:
        points: (N, 2).
        neighbors: (N, K) the K nearest other points of each point.
        distances: (N, K) distances to the neighbours.
    """

    points: Floats
    neighbors: NDArray[np.int64]
    distances: Floats

    @property
    def n_points(self) -> int:
        """Points of the cloud."""
        return len(self.points)

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of different points, over which errors are averaged."""
        return self.n_points * (self.n_points - 1)


def draw_square(n_points: int, side: float, n_neighbors: int, rng: np.random.Generator) -> Square:
    """Draw uniform points and find the nearest neighbours of each.

    Raises:
        ValueError: There are not more points than neighbours.
    """
    if n_neighbors >= n_points:
        raise ValueError(f"n_neighbors is {n_neighbors}; it must be below n_points, {n_points}")
    points = rng.uniform(0, side, size=(n_points, 2))
    distances, neighbors = cKDTree(points).query(points, k=n_neighbors + 1)
    # The nearest point is the point itself, since random points do not coincide.
    return Square(points, neighbors[:, 1:].astype(np.int64), distances[:, 1:])


def gaussian(z: Floats) -> Floats:
    """The kernel exp(−½ z²)."""
    value: Floats = np.exp(-0.5 * np.square(z))
    return value


@dataclass(frozen=True)
class DistanceCounts:
    """A histogram of distances, fine enough to replace the list of pairs.

    Attributes:
        z: (Z,) representative distance of each bin.
        counts: (Z,) ordered pairs in each bin.
    """

    z: Floats
    counts: Floats

    def total(self, values: Floats) -> float:
        """Sum over all pairs of a function of the distance, given per bin."""
        return float(values @ self.counts)


def count_distances(square: Square, n_bins: int = 4000) -> tuple[DistanceCounts, DistanceCounts]:
    """Histograms of all ordered pairs and of the neighbouring ones, in logarithmic bins."""
    low, high = np.log(1e-6), np.log(np.square(np.ptp(square.points, axis=0)).sum() * 1.001) / 2
    edges = np.linspace(low, high, n_bins + 1)
    near = np.histogram(np.log(np.maximum(square.distances, 1e-6)), edges)[0]
    everywhere = np.zeros(n_bins)
    points, n = square.points, square.n_points
    rows = max(1, CHUNK_VALUES // n)
    for first in range(0, n, rows):
        last = min(first + rows, n)
        # Pairs within the chunk occur twice in the loop, pairs with later points once.
        for others, weight in ((points[first:last], 1), (points[last:], 2)):
            squared = (points[first:last, None, 0] - others[None, :, 0]) ** 2
            squared += (points[first:last, None, 1] - others[None, :, 1]) ** 2
            inside = squared.ravel() if weight == 2 else squared[~np.eye(last - first, dtype=bool)]
            position = (0.5 * np.log(np.maximum(inside, 1e-12)) - low) * (n_bins / (high - low))
            everywhere += weight * np.bincount(position.astype(np.int64), minlength=n_bins)[:n_bins]
    centers = np.exp((edges[:-1] + edges[1:]) / 2)
    return DistanceCounts(centers, everywhere), DistanceCounts(centers, near.astype(np.float64))
