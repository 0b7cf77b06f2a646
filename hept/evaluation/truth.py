"""True particles: columns of a dataset enter, labels and properties of particles leave.

Axes: N hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.metrics.tracks import EventTruth
from hept.tracks.helix import find_perigee

Columns = Mapping[str, NDArray[Any]]
# Properties of particles by the columns that some datasets have.
_PROPERTIES = {"n_layers_hit": "n_layers", "vertex_primary": "vertex"}
_ORIGIN = ("origin_x", "origin_y", "origin_z", "particle_px", "particle_py", "particle_charge")
# Radius in (η, φ) in which hits are counted.
DENSITY_RADIUS = 0.1


def read_columns(batch: Batch) -> dict[str, NDArray[Any]]:
    """The columns of a batch as arrays on the host."""
    return {name: values.cpu().numpy() for name, values in batch.columns.items()}


def list_truth(columns: Columns, target: Target, *, with_density: bool = False) -> EventTruth:
    """The truth of one cloud.

    Without a pT, nothing is below a threshold; without η (imported files may lack it), everything is at 0;
    without weights, each hit of a particle has the same.

    Args:
        columns: Of the cloud.
        target: Which of them are the truth.
        with_density: Whether hits nearby are counted.
    """
    particle = columns[target.label].astype(np.int64)
    n = len(particle)
    properties: dict[str, NDArray[Any]] = {
        "pt": columns[target.pt] if target.pt is not None else np.full(n, np.inf),
        "eta": columns.get(target.eta or "", np.zeros(n)),
    }
    properties |= {name: columns[column] for column, name in _PROPERTIES.items() if column in columns}
    if set(_ORIGIN) <= set(columns):
        properties |= _follow_particles(columns, properties["pt"], properties["eta"])
    if with_density and {"eta", "phi"} <= set(columns):
        properties["density"] = _count_nearby(columns, particle)
    can_be_found = particle != 0 if target.selection is None else columns[target.selection].astype(bool)
    weight = columns.get("weight", particle != 0).astype(np.float64)
    return EventTruth(particle, can_be_found, properties, weight)


def _follow_particles(
    columns: Columns, pt: NDArray[np.floating], eta: NDArray[np.floating]
) -> dict[str, NDArray[np.float64]]:
    """(N,) distance from the beam at which a hit's particle begins, its charge, and its helix at the beam.

    NaN for particles that are not recorded, which have no pT.
    """
    x, y, z, px, py, charge = (columns[name].astype(np.float64) for name in _ORIGIN)
    phi, d0, z0 = find_perigee(np.stack([x, y, z], 1), px, py, np.sinh(eta.astype(np.float64)), charge)
    known = {"origin": np.hypot(x, y), "charge": charge, "phi": phi, "d0": d0, "z0": z0}
    return {name: np.where(pt > 0, values, np.nan) for name, values in known.items()}


def _count_nearby(columns: Columns, particle: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) local density: the number of hits within 0.1 in (η, φ), averaged over the hits of a particle."""
    phi = columns["phi"].astype(np.float64)
    # φ as a point on the unit circle has no seam; at this radius, chord and arc are equal.
    points = np.stack([columns["eta"].astype(np.float64), np.cos(phi), np.sin(phi)], 1)
    near = cKDTree(points).query_ball_point(points, DENSITY_RADIUS, return_length=True)
    _, owner, count = np.unique(particle, return_inverse=True, return_counts=True)
    return np.asarray((np.bincount(owner, weights=near) / count)[owner])
