"""The literal published pair procedure: a loop over particles that searches all edges for each.

Written from its description, for comparison; only the procedure itself makes it slow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree


def list_pairs(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    particle_id: NDArray[np.int64],
    *,
    max_neighbors: int = 256,
    radius: float = 1.0,
) -> NDArray[np.int64]:
    """(2, E): every pair once in each direction, without pairs of a point with itself."""
    edges = _make_symmetric(_find_edges(eta, phi, max_neighbors, radius), len(eta))
    collected = []
    for particle in np.unique(particle_id):
        if particle == 0:
            continue
        hits = np.flatnonzero(particle_id == particle)
        if len(hits) < 2:
            continue
        near = np.unique(edges[1][np.isin(edges[0], hits)])
        partners = np.union1d(near, hits)
        anchors, others = np.meshgrid(hits, partners, indexing="ij")
        collected.append(np.stack([anchors.ravel(), others.ravel()]))
    if not collected:
        return np.empty((2, 0), dtype=np.int64)
    pairs = _make_symmetric(np.concatenate(collected, axis=1), len(eta))
    return pairs[:, pairs[0] != pairs[1]]


def _find_edges(
    eta: NDArray[np.floating], phi: NDArray[np.floating], max_neighbors: int, radius: float
) -> NDArray[np.int64]:
    points = np.stack([eta, phi], axis=1).astype(np.float64)
    distance, neighbor = cKDTree(points).query(points, k=max_neighbors + 1, distance_upper_bound=radius)
    anchor = np.repeat(np.arange(len(points)), neighbor.shape[1])
    is_edge = np.isfinite(distance.ravel()) & (neighbor.ravel() != anchor)
    return np.stack([anchor[is_edge], neighbor.ravel()[is_edge]])


def _make_symmetric(edges: NDArray[np.int64], n_points: int) -> NDArray[np.int64]:
    both = np.concatenate([edges, edges[::-1]], axis=1)
    key = np.unique(both[0] * n_points + both[1])
    return np.stack([key // n_points, key % n_points])
