"""A TrackML event to point clouds: which hits, in which order, with which columns.

In: an event as read, the detector, and choices; out: one cloud per sector, without pairs. Axis: J hits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.cluster import CLUSTER_FEATURES, shape_clusters
from hepdata.features.curve import curve_order
from hepdata.features.hits import locate_hits
from hepdata.features.labels import NOISE, count_hits, label_momenta
from hepdata.features.layers import PIXEL_LAYERS, number_layers
from hepdata.features.sectors import Sectors
from hepdata.readers.trackml import TrackMLEvent
from hepdata.readers.trackml_detector import Detector
from hepdata.schema import TRACKING, Column, Schema

HOME_SECTOR = Column(
    "home_sector", "int32", "", "sector that holds at least half of the particle's hits", is_label=True
)
_Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CloudChoice:
    """Which hits become points, and which columns they have.

    Attributes:
        layers: "pixel" for the pixel detector, "all" for every layer of the detectors file.
        keep_noise: Whether hits without a particle are kept.
        min_pt: Drop the hits of particles below this pt in GeV; None drops none.
        has_cell_features: Whether cluster shapes are computed from cells.
        is_labelled: Whether truth is used.
        sectors: Division in φ.
    """

    layers: Literal["pixel", "all"] = "pixel"
    keep_noise: bool = True
    min_pt: float | None = None
    has_cell_features: bool = True
    is_labelled: bool = True
    sectors: Sectors = field(default_factory=Sectors)

    @property
    def schema(self) -> Schema:
        """The columns of the clouds."""
        absent = {column.name for column in TRACKING.columns if column.is_label and not self.is_labelled}
        if not self.has_cell_features:
            absent |= set(CLUSTER_FEATURES)
        schema = TRACKING.without(frozenset(absent))
        if self.is_labelled and self.sectors.n_sectors > 1:
            schema = replace(schema, columns=(*schema.columns, HOME_SECTOR))
        return schema


def make_clouds(event: TrackMLEvent, detector: Detector | None, choice: CloudChoice) -> list[PointCloud]:
    """The clouds of one event, points along the space-filling curve; a sector without hits gives none.

    Args:
        event: With cells and truth if `choice` needs them.
        detector: Needed for cluster shapes and for `layers="all"`.
        choice: What to make.

    Raises:
        InputError: No hit is left, all are noise, or a quantity is undefined for one of them.
    """
    name = f"event {event.event_id} ({event.stem})"
    module = detector.find_modules(event.hits, name) if detector is not None else None
    layers = detector.list_layers() if choice.layers == "all" and detector is not None else PIXEL_LAYERS
    layer = number_layers(event.hits["volume_id"], event.hits["layer_id"], layers)
    kept = np.flatnonzero(_keep_hits(event, layer, choice, name))
    columns: _Arrays = {
        key: event.hits[key][kept] for key in ("hit_id", "volume_id", "layer_id", "module_id")
    }
    columns["layer"] = layer[kept]
    columns |= locate_hits({key: event.hits[key][kept] for key in ("hit_id", "x", "y", "z")}, name)
    if choice.has_cell_features and event.cells is not None and detector is not None and module is not None:
        columns |= shape_clusters(event.cells, columns["hit_id"], module[kept], detector, name)
    if event.particle_id is not None and event.particles is not None:
        columns["particle_id"] = event.particle_id[kept]
        columns |= label_momenta(columns["particle_id"], event.particles, name)
    order = curve_order(columns["eta"].astype(np.float32), columns["phi"].astype(np.float32))
    columns = {key: values[order] for key, values in columns.items()}
    return _divide(event.event_id, columns, choice, name)


def _keep_hits(
    event: TrackMLEvent, layer: NDArray[np.int64], choice: CloudChoice, name: str
) -> NDArray[np.bool_]:
    keep = layer >= 0
    if not keep.any():
        raise InputError(
            name,
            found=f"none of its {len(layer)} hits in the {choice.layers} layers",
            expected="at least one",
            remedy="give `layers='all'`, or leave the event out",
        )
    if event.particle_id is None or event.particles is None:
        return keep
    if not (event.particle_id[keep] != NOISE).any():
        raise InputError(
            name,
            found=f"only noise: no particle made any of its {np.count_nonzero(keep)} hits",
            expected="hits of at least one particle",
            remedy="leave the event out, or give `unlabelled=True` to ignore the truth",
        )
    if not choice.keep_noise:
        keep &= event.particle_id != NOISE
    if choice.min_pt is not None:
        pt = label_momenta(event.particle_id, event.particles, name)["pt"]
        keep &= (pt >= choice.min_pt) | (event.particle_id == NOISE)
        if not (event.particle_id[keep] != NOISE).any():
            raise InputError(
                name,
                found=f"no particle with pt of at least {choice.min_pt} GeV",
                expected="hits of at least one particle after the cut",
                remedy="lower the threshold, or leave the event out",
            )
    return keep


def _divide(event_id: int, columns: _Arrays, choice: CloudChoice, name: str) -> list[PointCloud]:
    sectors, schema = choice.sectors, choice.schema
    if sectors.n_sectors > 1 and "particle_id" in columns:
        home = sectors.find_home(columns["u"], columns["v"], columns["particle_id"])
        columns = columns | {HOME_SECTOR.name: home}
    clouds = []
    for sector in range(sectors.n_sectors):
        inside = np.flatnonzero(sectors.select(sector, columns["u"], columns["v"]))
        if not len(inside):
            continue
        own = {key: values[inside] for key, values in columns.items()}
        if "particle_id" in own:
            own |= count_hits(own["particle_id"], own["layer"])
        clouds.append(PointCloud(schema.task, event_id, sector, _as_stored(own, schema, name)))
    return clouds


def _as_stored(columns: _Arrays, schema: Schema, name: str) -> _Arrays:
    """The columns in the types and the order of the schema, all finite."""
    stored = {}
    for column in schema.columns:
        with np.errstate(over="ignore"):
            values = columns[column.name].astype(column.dtype)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            hit = np.flatnonzero(~np.isfinite(values))[0]
            raise InputError(
                name,
                found=f"{column.name} = {columns[column.name][hit]} at hit {columns['hit_id'][hit]}",
                expected="a number that float32 can hold",
                remedy="repair the event's files or leave it out",
            )
        stored[column.name] = values
    return stored
