"""The pairs of the authors' files: whole particles against everything near any of their hits.

In: η, φ and particle of N points; out: two pair lists. Neighbours are the at most K nearest within a radius
in plain (η, φ), without periodic φ, made symmetric. Every hit of a particle with at least two hits is paired
with the union of the neighbours of all hits of that particle, and with the particle's other hits; the list is
then made symmetric. Which K neighbours the authors' search keeps depends on its order of visits; here they
are the nearest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from hepdata.cloud import PairList
from hepdata.pairs.csr import pack_rows
from hepdata.pairs.paper import CHUNK, pair_same_particle


def pair_published(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    particle_id: NDArray[np.int64],
    n_negatives: int,
    radius: float,
) -> tuple[PairList, PairList]:
    """Positives and negatives as the authors' datasets hold them.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth.
        particle_id: (N,) particle of each point, 0 for noise.
        n_negatives: K, the most neighbours that a point contributes.
        radius: How far a neighbour may be.
    """
    n_points = len(particle_id)
    positives = pair_same_particle(particle_id)
    has_partner = np.diff(positives.ptr) > 0
    if not has_partner.any():
        return positives, pack_rows(np.zeros(n_points, dtype=np.int64), np.empty(0, dtype=np.int32))
    points = np.stack([eta, phi], axis=1).astype(np.float64)
    near = _find_neighbors(points, n_negatives, radius)
    near = near + near.T
    member = _particles_of(particle_id, has_partner)  # (particles, N)
    reached = member @ near  # (particles, N): everything near any hit of the particle
    pairs = (member.T @ reached).tocsr()
    pairs = (pairs + pairs.T).tocsr()
    pairs.sort_indices()
    anchor = np.repeat(np.arange(n_points, dtype=np.int32), np.diff(pairs.indptr))
    # Same-particle pairs, the pair with itself among them, are positives, which are complete already.
    is_negative = particle_id[anchor] != particle_id[pairs.indices]
    counts = np.bincount(anchor[is_negative], minlength=n_points)
    return positives, pack_rows(counts, pairs.indices[is_negative])


def _find_neighbors(points: NDArray[np.float64], n_negatives: int, radius: float) -> sparse.csr_array:
    """(N, N) with True where the column is one of the row's at most K nearest points within the radius."""
    n_points = len(points)
    tree = cKDTree(points)
    counts, found = [], []
    for first in range(0, n_points, CHUNK):
        chunk = points[first : first + CHUNK]
        _, slot = tree.query(
            chunk, k=np.arange(1, min(n_negatives + 1, n_points) + 1), distance_upper_bound=radius
        )
        is_found = (slot < n_points) & (slot != np.arange(first, first + len(chunk))[:, None])
        is_found &= np.cumsum(is_found, axis=1, dtype=np.int32) <= n_negatives
        counts.append(is_found.sum(axis=1))
        found.append(slot[is_found].astype(np.int32))
    rows = pack_rows(np.concatenate(counts), np.concatenate(found))
    return sparse.csr_array(
        (np.ones(rows.n_pairs, dtype=np.bool_), rows.idx, rows.ptr), shape=(n_points, n_points)
    )


def _particles_of(particle_id: NDArray[np.int64], has_partner: NDArray[np.bool_]) -> sparse.csr_array:
    """(particles, N) with True where the point is one of the particle's hits."""
    hit = np.flatnonzero(has_partner)
    _, particle = np.unique(particle_id[hit], return_inverse=True)
    return sparse.csr_array(
        (np.ones(len(hit), dtype=np.bool_), (particle, hit)),
        shape=(int(particle.max()) + 1, len(particle_id)),
    )
