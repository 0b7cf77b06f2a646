"""Published torch_geometric tensors to clouds: named columns along the curve, pairs as sorted lists.

Axes: N points, E pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi
from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError
from hepdata.features.curve import curve_order
from hepdata.schema import TRACKING, Column, Schema

# Columns of `x` in the order of the published files, whose scales are those of the schema.
X_COLUMNS = tuple(entry for entry in TRACKING.features if entry.column != "layer")
# Optional tensors: published name to ours.
LABELS = {
    "particle_id": "particle_id",
    "pt": "pt",
    "eta": "particle_eta",
    "n_hits": "n_hits",
    "n_layers_hit": "n_layers_hit",
    "reconstructable": "is_reconstructable",
}
PAIR_NAMES = ("point_pairs_index_rad", "point_pairs_index", "point_pairs")
# Radii below this are in metres, since pixel hits are 30 mm and more from the beam: `x` is scaled.
MAX_SCALED_RADIUS = 5.0


def choose_schema(tensors: Mapping[str, NDArray[Any]]) -> Schema:
    """The tracking schema, reduced to the columns of these files."""
    absent = {"hit_id", "volume_id", "layer_id", "module_id"}
    absent |= {ours for theirs, ours in LABELS.items() if theirs not in tensors}
    schema = TRACKING.without(frozenset(absent))
    source = Column("index_in_source", "int32", "", "position of the hit in the imported file")
    target = TRACKING.target and replace(TRACKING.target, point_id=source.name)
    return replace(schema, columns=(source, *schema.columns), target=target)


def make_cloud(
    tensors: Mapping[str, NDArray[Any]], schema: Schema, *, event_id: int, sector: int, where: str
) -> PointCloud:
    """A cloud of the given schema.

    Raises:
        InputError: A tensor is missing or has the wrong shape.
    """
    x = _take(tensors, "x", where)
    if x.ndim != 2 or x.shape[1] < len(X_COLUMNS):
        raise InputError(
            f"{where}, tensor x",
            found=f"shape {x.shape}",
            expected=f"(N, {len(X_COLUMNS)}): {', '.join(entry.column for entry in X_COLUMNS)}",
            remedy="import files with these features",
        )
    columns = _features(x)
    columns["layer"] = _take(tensors, "layer", where).astype(np.int32)
    if "pos" in tensors:
        columns["eta"], columns["phi"] = tensors["pos"].astype(np.float32).T
    for theirs, ours in LABELS.items():
        if any(column.name == ours for column in schema.columns):
            columns[ours] = _take(tensors, theirs, where).astype(schema.column(ours).dtype)
    columns["index_in_source"] = np.arange(len(x), dtype=np.int32)
    _check_lengths(columns, where)
    order = curve_order(columns["eta"], columns["phi"])
    lists = _pair_lists(tensors, order, columns.get("particle_id"), where)
    ordered = {column.name: np.ascontiguousarray(columns[column.name][order]) for column in schema.columns}
    return PointCloud(schema.task, event_id, sector, ordered, *lists, schema=schema)


def _features(x: NDArray[Any]) -> dict[str, NDArray[Any]]:
    is_scaled = len(x) > 0 and float(np.median(np.abs(x[:, 0]))) < MAX_SCALED_RADIUS
    columns = {}
    for j, entry in enumerate(X_COLUMNS):
        values = x[:, j].astype(np.float64)
        columns[entry.column] = (values / entry.scale if is_scaled else values).astype(np.float32)
    columns["phi"] = wrap_phi(columns["phi"])
    return columns


def _pair_lists(
    tensors: Mapping[str, NDArray[Any]],
    order: NDArray[np.int64],
    particle_id: NDArray[Any] | None,
    where: str,
) -> tuple[PairList | None, PairList | None]:
    name = next((name for name in PAIR_NAMES if name in tensors), None)
    if name is None or particle_id is None:
        return None, None
    pairs, n = tensors[name], len(order)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and (pairs.min() < 0 or pairs.max() >= n)):
        raise InputError(
            f"{where}, tensor {name}",
            found=f"shape {pairs.shape}, indices up to {pairs.max() if pairs.size else 'none'}",
            expected=f"(2, E) indices below {n}",
            remedy="import files whose pairs fit their points",
        )
    anchors, partners = pairs[:, pairs[0] != pairs[1]]
    is_same = (particle_id[anchors] == particle_id[partners]) & (particle_id[anchors] > 0)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    return (
        _as_list(position[anchors[is_same]], position[partners[is_same]], n),
        _as_list(position[anchors[~is_same]], position[partners[~is_same]], n),
    )


def _as_list(anchors: NDArray[np.int64], partners: NDArray[np.int64], n: int) -> PairList:
    keys = np.unique(anchors * n + partners)
    counts = np.bincount(keys // n, minlength=n) if n else np.empty(0, np.int64)
    return PairList(np.cumsum([0, *counts]).astype(np.int32), (keys % max(n, 1)).astype(np.int32))


def _take(tensors: Mapping[str, NDArray[Any]], name: str, where: str) -> NDArray[Any]:
    if name not in tensors:
        raise InputError(
            where,
            found=f"tensors {', '.join(tensors)}",
            expected=f"a tensor {name!r}, as in the other files",
            remedy="import files of one kind at a time",
        )
    return tensors[name]


def _check_lengths(columns: Mapping[str, NDArray[Any]], where: str) -> None:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            where,
            found=f"tensors of different lengths {lengths}",
            expected="one value per point",
            remedy="create the file again",
        )
