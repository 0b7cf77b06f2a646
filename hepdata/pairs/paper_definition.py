"""The pairs of the paper: same particle against the nearest points of other particles (Sec. 4.1).

In: η, φ and particle of N points; out: two pair lists. A point's positives are the other points of its
particle, its negatives the K nearest points of other particles in (η, φ), φ periodic. Noise (particle 0) has
negatives but no positives, and noise is no negative of noise: nothing is known about such a pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PairList
from hepdata.features.labels import NOISE
from hepdata.pairs.csr import pair_groups
from hepdata.pairs.nearest import find_nearest_others


def pair_same_particle(particle_id: NDArray[np.int64]) -> PairList:
    """Every point with all other points of its particle; noise has none."""
    return pair_groups(particle_id, particle_id != NOISE)


def pair_nearest_others(
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    particle_id: NDArray[np.int64],
    n_negatives: int,
    *,
    is_periodic: bool = True,
) -> PairList:
    """Every point with its `n_negatives` nearest points of other particles, or all where there are fewer.

    Args:
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth.
        particle_id: (N,) particle of each point, 0 for noise.
        n_negatives: K.
        is_periodic: Whether φ wraps around.
    """
    return find_nearest_others(eta, phi, particle_id, n_negatives, is_periodic=is_periodic)
