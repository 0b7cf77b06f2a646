"""A TrackML event to point clouds: which hits, in which order, with which columns.

In: an event as read, the detector, and choices; out: one cloud per sector, without pairs. Axis: J hits.
"""

from __future__ import annotations

from dataclasses import replace

from hepdata.cloud import PointCloud
from hepdata.features.cluster import CLUSTER_FEATURES, shape_clusters
from hepdata.features.hit_clouds import Arrays, CloudChoice, divide_hits, keep_hits, mirror_layers
from hepdata.features.hits import locate_hits
from hepdata.features.labels import add_origin, label_particles
from hepdata.features.layers import TRACKML_LAYERS, list_layers, mirror_trackml, number_layers
from hepdata.readers.trackml import TrackMLEvent
from hepdata.readers.trackml_detector import Detector
from hepdata.schema import TRACKING, Column, Schema

# Of TrackML's truth alone, so no column of every tracking dataset.
HIT_WEIGHT = Column("weight", "float32", "", "weight of the hit in the TrackML score", is_label=True)


def trackml_schema(choice: CloudChoice) -> Schema:
    """The columns of clouds of TrackML events."""
    absent = {column.name for column in TRACKING.columns if column.is_label and not choice.is_labelled}
    if not choice.has_cell_features:
        absent |= set(CLUSTER_FEATURES)
    schema = TRACKING.without(frozenset(absent))
    layers = TRACKML_LAYERS.get(choice.layers) if isinstance(choice.layers, str) else choice.layers
    schema = mirror_layers(schema, None if layers is None else mirror_trackml(layers))
    if choice.is_labelled:
        schema = add_origin(replace(schema, columns=(*schema.columns, HIT_WEIGHT)))
    return replace(schema, columns=(*schema.columns, *choice.sector_columns))


def make_clouds(event: TrackMLEvent, detector: Detector | None, choice: CloudChoice) -> list[PointCloud]:
    """The clouds of one event, points along the space-filling curve; a sector without hits gives none.

    Args:
        event: With cells and truth if `choice` needs them.
        detector: Needed for cluster shapes and for all layers.
        choice: What to make.

    Raises:
        InputError: No hit is left, all are noise, or a quantity is undefined for one of them.
    """
    name = f"event {event.event_id} ({event.stem})"
    module = detector.find_modules(event.hits, name) if detector is not None else None
    known = TRACKML_LAYERS | ({"all": tuple(detector.list_layers())} if detector is not None else {})
    layers = list_layers(choice.layers, known)
    layer = number_layers(event.hits["volume_id"], event.hits["layer_id"], layers)
    pt = None
    if choice.min_pt is not None and event.particle_id is not None and event.particles is not None:
        every = label_particles(event.particle_id, event.particles, name)
        pt = every.columns["pt"][every.particle_j]
    kept = keep_hits(layer, event.particle_id, pt, choice, name)
    columns: Arrays = {key: event.hits[key][kept] for key in ("hit_id", "volume_id", "layer_id", "module_id")}
    columns["layer"] = layer[kept]
    columns |= locate_hits({key: event.hits[key][kept] for key in ("hit_id", "x", "y", "z")}, name)
    if choice.has_cell_features and event.cells is not None and detector is not None and module is not None:
        columns |= shape_clusters(event.cells, columns["hit_id"], module[kept], detector, name)
    labels = None
    if event.particle_id is not None and event.weight is not None and event.particles is not None:
        columns["weight"] = event.weight[kept]
        labels = label_particles(event.particle_id[kept], event.particles, name)
    return divide_hits(event.event_id, columns, labels, trackml_schema(choice), choice, name)
