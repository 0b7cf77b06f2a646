"""Hits with their columns to point clouds, for every source of tracking events.

In: columns of one event's hits and the choices of a build; out: one cloud per sector, without pairs.
Axis: J hits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.curve import curve_order
from hepdata.features.labels import NOISE, ParticleLabels, count_by_particle
from hepdata.features.layers import LayerChoice, name_layers
from hepdata.features.sectors import Sectors
from hepdata.schema import Column, Schema

HOME_SECTOR = Column(
    "home_sector", "int32", "", "sector that holds at least half of the particle's hits", is_label=True
)
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CloudChoice:
    """Which hits become points, and which columns they have.

    Attributes:
        layers: Detector layers, by the name of a choice or one by one.
        keep_noise: Whether hits without a particle are kept.
        min_pt: Drop the hits of particles below this pt in GeV; None drops none.
        has_cell_features: Whether cluster shapes are computed from cells.
        is_labelled: Whether truth is used.
        sectors: Division in φ.
    """

    layers: LayerChoice = "pixel"
    keep_noise: bool = True
    min_pt: float | None = None
    has_cell_features: bool = True
    is_labelled: bool = True
    sectors: Sectors = field(default_factory=Sectors)

    @property
    def sector_columns(self) -> tuple[Column, ...]:
        """Labels that only clouds of several sectors have."""
        return (HOME_SECTOR,) if self.is_labelled and self.sectors.n_sectors > 1 else ()


def mirror_layers(schema: Schema, opposite: tuple[int, ...] | None) -> Schema:
    """The schema with the number of the opposite layer, where it is known."""
    if schema.symmetries is None or opposite is None:
        return schema
    known = schema.symmetries.without({"layer"})
    return replace(schema, symmetries=replace(known, mirrored=(*known.mirrored, ("layer", opposite))))


def keep_hits(
    layer: NDArray[np.int64],
    particle_id: NDArray[np.int64] | None,
    pt: NDArray[np.float64] | None,
    choice: CloudChoice,
    name: str,
) -> NDArray[np.int64]:
    """Indices of the hits that become points.

    Args:
        layer: (J,) number of the layer, −1 for layers that are not chosen.
        particle_id: (J,) None without truth.
        pt: (J,) of the particle; needed for `choice.min_pt` only.
        choice: Which hits are wanted.
        name: Of the event, for messages.

    Raises:
        InputError: No hit is left, or only noise.
    """
    keep = layer >= 0
    if not keep.any():
        raise InputError(
            name,
            found=f"none of its {len(layer)} hits in the {name_layers(choice.layers)}",
            expected="at least one",
            remedy="give `layers='all'`, or leave the event out",
        )
    if particle_id is None:
        return np.flatnonzero(keep)
    if not (particle_id[keep] != NOISE).any():
        raise InputError(
            name,
            found=f"only noise: no particle made any of its {np.count_nonzero(keep)} hits",
            expected="hits of at least one particle",
            remedy="leave the event out, or give `unlabelled=True` to ignore the truth",
        )
    if not choice.keep_noise:
        keep &= particle_id != NOISE
    if choice.min_pt is not None and pt is not None:
        keep &= (pt >= choice.min_pt) | (particle_id == NOISE)
        if not (particle_id[keep] != NOISE).any():
            raise InputError(
                name,
                found=f"no particle with pt of at least {choice.min_pt} GeV",
                expected="hits of at least one particle after the cut",
                remedy="lower the threshold, or leave the event out",
            )
    return np.flatnonzero(keep)


def divide_hits(
    event_id: int,
    columns: Arrays,
    labels: ParticleLabels | None,
    schema: Schema,
    choice: CloudChoice,
    name: str,
) -> list[PointCloud]:
    """The clouds of one event, points along the space-filling curve; a sector without hits gives none.

    Args:
        event_id: Event number.
        columns: (J,) each; labels of hits that are not those of their particles too.
        labels: The particles of the hits; None without truth.
        schema: Columns of the clouds.
        choice: Division in φ.
        name: Of the event, for messages.

    Raises:
        InputError: A value is not finite in the type of its column.
    """
    order = curve_order(columns["eta"].astype(np.float32), columns["phi"].astype(np.float32))
    sectors, of_particles = choice.sectors, {} if labels is None else _as_stored(labels.columns, schema, name)
    if sectors.n_sectors > 1 and labels is not None:
        particle_id = labels.columns["particle_id"][labels.particle_j]
        columns = columns | {HOME_SECTOR.name: sectors.find_home(columns["u"], columns["v"], particle_id)}
    # Narrow before reordering: half the memory to move.
    stored, clouds = _as_stored(columns, schema, name), []
    for sector in range(sectors.n_sectors):
        rows = order
        if sectors.n_sectors > 1:
            rows = order[sectors.select(sector, columns["u"], columns["v"])[order]]
            if not len(rows):
                continue
        own = {key: values.take(rows) for key, values in stored.items()}
        if labels is not None:
            particle_j = labels.particle_j.take(rows)
            counts = count_by_particle(labels.columns["particle_id"], particle_j, own["layer"])
            per_particle = of_particles | _as_stored(counts, schema, name)
            own |= {key: values.take(particle_j) for key, values in per_particle.items()}
        own = {column.name: own[column.name] for column in schema.columns}
        clouds.append(PointCloud(schema.task, event_id, sector, own))
    return clouds


def _as_stored(columns: Arrays, schema: Schema, name: str) -> Arrays:
    """Columns of the schema in its types, all finite."""
    stored = {}
    for column in schema.columns:
        if column.name not in columns:
            continue
        given = columns[column.name]
        with np.errstate(over="ignore"):
            values = given.astype(column.dtype, copy=False)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row, key = np.flatnonzero(~np.isfinite(values))[0], "hit" if "hit_id" in columns else "particle"
            raise InputError(
                name,
                found=f"{column.name} = {given[row]} at {key} {columns[f'{key}_id'][row]}",
                expected="a number that float32 can hold",
                remedy="repair the event's files or leave it out",
            )
        stored[column.name] = values
    return stored
