"""Points of a table to point clouds: a description and the values of one event in, one cloud out.

Axis: N points of one event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.curve import curve_order
from hepdata.features.plane import check_plane, place_points
from hepdata.inputs import choose_inputs
from hepdata.readers.table_description import TableDescription
from hepdata.schema import Column, ModelInput, Schema, Target
from hepdata.symmetries import Symmetries

INDEX = Column("index_in_source", "int32", "", "place in the event as the source lists it")


def table_schema(
    description: TableDescription, kinds: Mapping[str, str], where: str, *, is_labelled: bool
) -> Schema:
    """The schema of clouds of a table.

    Args:
        description: What the user wrote.
        kinds: numpy's kind letter of every column of the file.
        where: The description's file, for messages.
        is_labelled: Whether truth is stored.

    Raises:
        InputError: Inputs or a target that do not fit the columns.
    """
    target = description.target
    columns = tuple(
        _describe_column(name, description, kinds[description.source_of(name)])
        for name in description.list_stored(is_labelled=is_labelled)
    )
    if target is None or target.point_id == INDEX.name:
        columns = (INDEX, *columns)
    schema = Schema(
        description.task,
        columns,
        (),
        (),
        None if target is None else Target(**target.model_dump()),
    )
    hidden = {INDEX.name, target.point_id if target else ""} | {c.name for c in columns if c.is_label}
    plain = [column for column in schema.columns if column.name not in hidden]
    default = tuple(ModelInput.of(column) for column in plain)
    coordinates = choose_inputs(schema, default, description.coordinates, where=f"{where}, coordinates")
    features = choose_inputs(schema, default, description.features, where=f"{where}, features")
    for kind, entry in [("coordinates", e) for e in coordinates] + [("features", e) for e in features]:
        if schema.column(entry.column).is_label:
            raise InputError(
                f"{where}, {kind}",
                found=f"the label {entry.column!r}",
                expected="columns that a detector measures",
                remedy="leave it out, or give the column `is_label: false`",
            )
    check_plane(coordinates, f"{where}, coordinates")
    symmetries = None
    if description.symmetries is not None:
        absent = [name for name in description.columns if not schema.has_column(name)]
        symmetries = Symmetries(**description.symmetries.model_dump()).without(absent)
    return replace(schema, features=features, coordinates=coordinates, symmetries=symmetries)


def _describe_column(name: str, description: TableDescription, kind: str) -> Column:
    found, target = description.column(name), description.target
    is_truth = target is not None and name == target.label
    is_class = target is not None and target.objective == "classification"
    dtype: str | None = found.dtype
    if dtype is None and is_truth:
        dtype = "bool" if is_class else "int64"
    if dtype is None:
        dtype = {"f": "float32", "b": "bool"}.get(kind, "int32")
    return Column(
        name, dtype, found.unit, found.meaning, description.is_label(name), found.period, found.n_classes
    )


def make_cloud(
    event_id: int,
    values: Mapping[str, NDArray[Any]],
    description: TableDescription,
    schema: Schema,
    where: str,
) -> PointCloud:
    """One event, points along the space-filling curve in the plane of the first two coordinates.

    Raises:
        InputError: A value that is not finite, or does not fit the type or the classes of its column.
    """
    n_points = len(next(iter(values.values())))
    columns = {
        column.name: np.arange(n_points, dtype=INDEX.dtype)
        if column == INDEX
        else _store(values[description.source_of(column.name)], column, where)
        for column in schema.columns
    }
    plane = place_points(columns, schema.coordinates)
    order = curve_order(plane.x, plane.y)
    return PointCloud(schema.task, event_id, 0, {name: column[order] for name, column in columns.items()})


def _store(values: NDArray[Any], column: Column, where: str) -> NDArray[Any]:
    """Cast values to the type of their column; only rounding of real numbers may change one."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = values.astype(column.dtype)
        is_good = np.isfinite(stored) if stored.dtype.kind == "f" else stored == values
    if column.n_classes:
        is_good &= (stored >= 0) & (stored < column.n_classes)
    if is_good.all():
        return stored
    bad = int(np.flatnonzero(~is_good)[0])
    number = f"a number that {column.dtype} can hold" if column.dtype != "bool" else "0 or 1"
    raise InputError(
        f"{where}, column {column.name!r}",
        found=f"{values[bad]} at point {bad} ({np.count_nonzero(~is_good)} such values)",
        expected=f"a class from 0 to {column.n_classes - 1}" if column.n_classes else number,
        remedy="repair the table, change `dtype` or `n_classes` in the schema, or skip such events with "
        "`on_error='skip'`",
    )
