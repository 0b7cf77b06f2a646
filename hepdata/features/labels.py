"""Labels of hits: the particle, its momentum, and its number of hits and layers in the cloud.

In: particle of every hit, particles, layers; out: one array per label. Axes: J hits, K particles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.features.hits import pseudorapidity
from hepdata.readers.trackml_table import Columns

NOISE = 0
MIN_LAYERS = 3


def label_momenta(
    particle_id: NDArray[np.int64], particles: Columns, event: str
) -> dict[str, NDArray[np.float64]]:
    """Transverse momentum and η of the particle of every hit; both 0 for noise.

    Raises:
        InputError: A particle with hits flies along the beam, where η is infinite.
    """
    is_particle = particle_id != NOISE
    pt = np.hypot(particles["px"], particles["py"])
    row = np.searchsorted(particles["particle_id"], particle_id[is_particle])
    still = np.flatnonzero(pt[row] <= 0)
    if len(still):
        raise InputError(
            event,
            found=f"particle {particle_id[is_particle][still[0]]} without transverse momentum",
            expected="particles with px or py",
            remedy="repair the particles file or leave the event out",
        )
    labels = {name: np.zeros(len(particle_id)) for name in ("pt", "particle_eta")}
    labels["pt"][is_particle] = pt[row]
    labels["particle_eta"][is_particle] = pseudorapidity(pt[row], particles["pz"][row])
    return labels


def count_hits(particle_id: NDArray[np.int64], layer: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """How many hits and layers of a cloud each hit's particle has; 0 for noise.

    Only hits of this cloud count: a particle that is cut by the edge of a sector, or by the choice of
    layers, is reconstructable only if enough of it is left.
    """
    particle_k, particle_j = np.unique(particle_id, return_inverse=True)
    n_hits_k = np.bincount(particle_j, minlength=len(particle_k))
    n_layers = int(layer.max()) + 1 if len(layer) else 1
    seen = np.unique(particle_j.astype(np.int64) * n_layers + layer)
    n_layers_k = np.bincount(seen // n_layers, minlength=len(particle_k))
    is_noise_k = particle_k == NOISE
    n_hits_k[is_noise_k] = 0
    n_layers_k[is_noise_k] = 0
    n_layers_hit = n_layers_k[particle_j]
    return {
        "n_hits": n_hits_k[particle_j],
        "n_layers_hit": n_layers_hit,
        "is_reconstructable": n_layers_hit >= MIN_LAYERS,
    }
