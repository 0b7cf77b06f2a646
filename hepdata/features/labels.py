"""Labels of hits: the particle, its momentum, and its number of hits and layers in the cloud.

In: particle of every hit, particles, layers; out: one array per label. Axes: J hits, K particles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.features.hits import pseudorapidity
from hepdata.readers.trackml_table import Columns
from hepdata.schema import Column, Schema
from hepdata.symmetries import Symmetries

NOISE = 0
MIN_LAYERS = 3
# Of sources that tell where particles begin and how they are charged.
ORIGIN = (
    Column("origin_x", "float32", "mm", "x where the particle begins, 0 for noise", is_label=True),
    Column("origin_y", "float32", "mm", "y where the particle begins", is_label=True),
    Column("origin_z", "float32", "mm", "z where the particle begins", is_label=True),
    Column("particle_px", "float32", "GeV", "momentum of the particle there along x", is_label=True),
    Column("particle_py", "float32", "GeV", "momentum of the particle there along y", is_label=True),
    Column("particle_charge", "int32", "e", "electric charge of the particle", is_label=True),
)
# The same in tables of particles.
_ORIGIN_SOURCE = ("vx", "vy", "vz", "px", "py", "q")


def add_origin(schema: Schema) -> Schema:
    """The schema with the columns of particles' origins."""
    known = schema.symmetries or Symmetries()
    symmetries = replace(
        known,
        vectors=(*known.vectors, ("origin_x", "origin_y"), ("particle_px", "particle_py")),
        reversed=(*known.reversed, "origin_z"),
    )
    return replace(schema, columns=(*schema.columns, *ORIGIN), symmetries=symmetries)


@dataclass(frozen=True)
class ParticleLabels:
    """The particles of hits. Axes: J hits, K distinct particles, noise included.

    Attributes:
        particle_j: (J,) which of the K particles made each hit.
        columns: (K,) each: particle_id, transverse momentum, η; collision and origin where they are known.
    """

    particle_j: NDArray[np.integer]
    columns: dict[str, NDArray[Any]]


def label_particles(particle_id: NDArray[np.int64], particles: Columns, event: str) -> ParticleLabels:
    """Find the particle of every hit; all labels are 0 for noise and for what the source does not record.

    Raises:
        InputError: A particle with hits flies along the beam, where η is infinite.
    """
    particle_k, particle_j = _encode(particle_id)
    known = particles["particle_id"]
    # By hashing: a binary search takes ten times as long.
    found = pc.index_in(pa.array(particle_k), pa.array(known)).fill_null(len(known)).to_numpy()
    # Row len(known), of zeros, is for noise and for what is not listed.
    row = np.where(particle_k == NOISE, len(known), found)
    px, py, pz = (np.append(particles[name], 0).astype(np.float64)[row] for name in ("px", "py", "pz"))
    pt = np.hypot(px, py)
    still = np.flatnonzero((pt == 0) & (row < len(known)))
    if len(still):
        raise InputError(
            event,
            found=f"particle {particle_k[still[0]]} without transverse momentum",
            expected="particles with px or py",
            remedy="repair the particles file or leave the event out",
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        eta = np.where(row < len(known), pseudorapidity(pt, pz), 0)
    labels: dict[str, NDArray[Any]] = {"particle_id": particle_k, "pt": pt, "particle_eta": eta}
    if "vertex_primary" in particles:
        labels["vertex_primary"] = np.append(particles["vertex_primary"], 0)[row]
    if set(_ORIGIN_SOURCE) <= set(particles):
        for column, name in zip(ORIGIN, _ORIGIN_SOURCE, strict=True):
            labels[column.name] = np.append(particles[name], 0)[row]
    return ParticleLabels(particle_j, labels)


def count_hits(particle_id: NDArray[np.int64], layer: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """How many hits and layers of a cloud each hit's particle has; see `count_by_particle`."""
    particle_k, particle_j = _encode(particle_id)
    counts = count_by_particle(particle_k, particle_j, layer)
    return {name: values[particle_j] for name, values in counts.items()}


def count_by_particle(
    particle_k: NDArray[np.int64], particle_j: NDArray[np.integer], layer: NDArray[np.integer]
) -> dict[str, NDArray[Any]]:
    """(K,) hits and layers of each particle in a cloud; 0 for noise.

    Only hits of this cloud count: a particle that is cut by the edge of a sector, or by the choice of
    layers, is reconstructable only if enough of it is left.
    """
    n_hits_k = np.bincount(particle_j, minlength=len(particle_k))
    n_layers = int(layer.max()) + 1 if len(layer) else 1
    # A table of particles × layers is an order of magnitude faster than sorting the pairs.
    is_hit = np.zeros(len(particle_k) * n_layers, dtype=np.bool_)
    is_hit[particle_j.astype(np.int64) * n_layers + layer] = True
    n_layers_k = np.count_nonzero(is_hit.reshape(len(particle_k), n_layers), axis=1)
    is_noise_k = particle_k == NOISE
    n_hits_k[is_noise_k] = 0
    n_layers_k[is_noise_k] = 0
    return {
        "n_hits": n_hits_k,
        "n_layers_hit": n_layers_k,
        "is_reconstructable": n_layers_k >= MIN_LAYERS,
    }


def _encode(particle_id: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """(K,) distinct ids, and (J,) which of them each hit has."""
    encoded = pa.array(particle_id).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
