"""The pairs of the authors' files: whole particles against everything near any of their hits.

In: η, φ and particle of N points; out: two pair lists. Neighbours are the at most K nearest within a radius
in plain (η, φ), without periodic φ, made symmetric. Every hit of a particle with at least two hits is paired
with the union of the neighbours of all hits of that particle, and with the particle's other hits; the list is
then made symmetric. Which K neighbours the authors' search keeps depends on the order of its search; here
they are the nearest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hepdata.cloud import PairList
from hepdata.pairs.csr import pack_rows
from hepdata.pairs.nearest import find_nearest_others
from hepdata.pairs.paper_definition import pair_same_particle


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
        radius: Largest distance of a neighbour.
    """
    n_points = len(particle_id)
    positives = pair_same_particle(particle_id)
    hit = np.flatnonzero(np.diff(positives.ptr) > 0)  # the hits of particles with at least two
    if not len(hit):
        return positives, pack_rows(np.zeros(n_points, dtype=np.int64), np.empty(0, dtype=np.int32))
    particle_k, particle = np.unique(particle_id[hit], return_inverse=True)
    member = _as_matrix((particle, hit), (len(particle_k), n_points))
    everyone = np.arange(n_points)
    rows = find_nearest_others(eta, phi, everyone, n_negatives, is_periodic=False, radius=radius)
    near = sparse.csr_array(
        (np.ones(rows.n_pairs, dtype=np.bool_), rows.idx, rows.ptr), shape=(n_points,) * 2
    )
    # (particles, N): everything near any hit of the particle, in either direction, except its own hits
    reached = (member @ near + (near @ member.T).T).tocoo()
    is_other = particle_k[reached.row] != particle_id[reached.col]
    reached = _as_matrix((reached.row[is_other], reached.col[is_other]), member.shape)
    pairs = _repeat_rows(reached, hit, particle, n_points)
    pairs = (pairs + pairs.T).tocsr()
    pairs.sort_indices()
    return positives, pack_rows(np.diff(pairs.indptr), pairs.indices)


def _repeat_rows(
    matrix: sparse.csr_array, row: NDArray[np.int64], source: NDArray[np.int64], n_rows: int
) -> sparse.csr_array:
    """The matrix whose row `row[i]` is row `source[i]` of another; its other rows are empty."""
    length = np.diff(matrix.indptr)[source]
    ptr = np.zeros(n_rows + 1, dtype=np.int32)
    ptr[row + 1] = length
    np.cumsum(ptr, out=ptr)
    # Element p of the result is element `p − ptr[row]` of its source row.
    shift = np.repeat(matrix.indptr[source] - ptr[row], length)
    shift += np.arange(len(shift), dtype=shift.dtype)
    idx = matrix.indices[shift]
    return sparse.csr_array((np.ones(len(idx), dtype=np.bool_), idx, ptr), shape=(n_rows, matrix.shape[1]))


def _as_matrix(positions: tuple[NDArray[Any], NDArray[Any]], shape: tuple[int, int]) -> sparse.csr_array:
    """A sparse matrix that is True at the given rows and columns."""
    return sparse.coo_array((np.ones(len(positions[0]), dtype=np.bool_), positions), shape=shape).tocsr()
