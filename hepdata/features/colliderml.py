"""A ColliderML event to point clouds: the columns of tracking without cluster shapes.

In: an event as read, and choices; out: one cloud per sector, without pairs. Axes: J hits, T tracks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.cluster import CLUSTER_FEATURES
from hepdata.features.hit_clouds import Arrays, CloudChoice, divide_hits, keep_hits, mirror_layers
from hepdata.features.hits import locate_hits
from hepdata.features.labels import add_origin, label_particles
from hepdata.features.layers import ODD_LAYERS, list_layers, mirror_odd, number_layers
from hepdata.readers.colliderml import ColliderMLEvent
from hepdata.schema import TRACKING, Column, Schema

TIME = Column("time", "float32", "ns", "time of the hit")
TRACK = Column("baseline_track", "int32", "", "track of the source's own reconstruction, −1 for none")
VERTEX = Column(
    "vertex_primary", "int32", "", "collision of the particle: 1 is the hard one, 0 is unknown", is_label=True
)


def colliderml_schema(choice: CloudChoice, has: Collection[str]) -> Schema:
    """The columns of clouds of a source that has some of `time`, `vertex_primary`, `vx` and `tracks`."""
    absent = {column.name for column in TRACKING.columns if column.is_label and not choice.is_labelled}
    schema = TRACKING.without(frozenset(absent | set(CLUSTER_FEATURES)))
    more = [column for name, column in (("time", TIME), ("tracks", TRACK)) if name in has]
    if choice.is_labelled and "vertex_primary" in has:
        more.append(VERTEX)
    schema = replace(schema, columns=(*schema.columns, *more))
    if choice.is_labelled and {"vx", "vy", "vz", "charge"} <= set(has):
        schema = add_origin(schema)
    layers = ODD_LAYERS.get(choice.layers) if isinstance(choice.layers, str) else choice.layers
    schema = mirror_layers(schema, None if layers is None else mirror_odd(layers))
    return replace(schema, columns=(*schema.columns, *choice.sector_columns))


def make_clouds(event: ColliderMLEvent, schema: Schema, choice: CloudChoice) -> list[PointCloud]:
    """The clouds of one event; a sector without hits gives none.

    Particles that the source does not record (secondaries below its threshold) keep their id and have pt 0.

    Raises:
        InputError: No hit is left, all are noise, or a hit lies in an unknown layer or on the beam axis.
    """
    name, hits = f"event {event.event_id} ({event.source})", event.hits
    layer = number_layers(hits["volume_id"], hits["layer_id"], list_layers(choice.layers, ODD_LAYERS))
    if choice.layers == "all":
        _check_layers(layer, hits["volume_id"], hits["layer_id"], name)
    particle_id, pt = None, None
    if event.particles is not None:
        particle_id = hits["particle_id"]
        if choice.min_pt is not None:
            every = label_particles(particle_id, event.particles, name)
            pt = every.columns["pt"][every.particle_j]
    kept = keep_hits(layer, particle_id, pt, choice, name)
    # Nothing is copied where all hits are kept.
    rows = slice(None) if len(kept) == len(layer) else kept
    columns: Arrays = {"hit_id": kept, "layer": layer[rows], "module_id": hits["surface_id"][rows]}
    columns |= {key: hits[key][rows] for key in ("volume_id", "layer_id")}
    columns |= locate_hits(
        {"hit_id": kept} | {key: hits[key][rows].astype(np.float64) for key in ("x", "y", "z")}, name
    )
    if schema.has_column("time"):
        columns["time"] = hits["time"][rows]
    if schema.has_column("baseline_track"):
        columns["baseline_track"] = assign_tracks(event)[rows]
    labels = None
    if particle_id is not None and event.particles is not None:
        labels = label_particles(particle_id[rows], event.particles, name)
    return divide_hits(event.event_id, columns, labels, schema, choice, name)


def assign_tracks(event: ColliderMLEvent) -> NDArray[np.int64]:
    """(J,) the number of each hit's track, −1 for none; a shared hit counts for its longest track."""
    track = np.full(len(event.hits["x"]), -1, dtype=np.int64)
    if event.track_ids is None or event.track_hits is None or event.track_offsets is None:
        return track
    lengths = np.diff(event.track_offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    # Written from the shortest to the longest track, of equal ones the first track last.
    order = np.lexsort((-owner, lengths[owner]))
    track[event.track_hits[order]] = event.track_ids[owner[order]]
    return track


def _check_layers(
    layer: NDArray[np.int64], volume_id: NDArray[np.integer], layer_id: NDArray[np.integer], name: str
) -> None:
    unknown = np.flatnonzero(layer < 0)
    if len(unknown):
        hit = unknown[0]
        raise InputError(
            name,
            found=f"hit {hit} in volume {volume_id[hit]}, layer {layer_id[hit]} ({len(unknown)} such hits)",
            expected="layers of the Open Data Detector",
            remedy="list the layers of your detector in a YAML file and give it as `layers`",
        )
