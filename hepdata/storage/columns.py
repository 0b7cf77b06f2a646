"""The columns of a file in order: scalars, one list per variable, pair lists.

Pair lists come last, so that a cloud without them is one contiguous range of bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError, nearest_name
from hepdata.schema import Column, Schema

SCALARS = (
    Column("event_id", "int64", "", "event number in the source"),
    Column("sector", "int32", "", "φ sector of the event, 0 where it is not divided"),
    Column("n_points", "int32", "", "points in the cloud"),
)
PAIRS = (
    Column(
        "pos_ptr",
        "int32",
        "",
        "partners of point i are pos_idx[pos_ptr[i]:pos_ptr[i+1]]",
    ),
    Column("pos_idx", "int32", "", "points of the same particle"),
    Column("neg_ptr", "int32", "", "partners of point i are neg_idx[neg_ptr[i]:neg_ptr[i+1]]"),
    Column("neg_idx", "int32", "", "points to be told apart"),
)
# One page holds a list, and LZ4 compresses at most 0x7E000000 bytes at a time.
MAX_PAIRS = 0x7E000000 // 4
PAIR_NAMES = tuple(column.name for column in PAIRS)


def list_columns(schema: Schema, has_pairs: bool) -> tuple[Column, ...]:
    """Every stored list column, in file order."""
    return schema.columns + (PAIRS if has_pairs else ())


@cache
def arrow_schema(schema: Schema, has_pairs: bool) -> pa.Schema:
    """The schema of a Parquet shard; units and meanings are in the field metadata."""
    fields = [_field(column, pa.from_numpy_dtype(column.dtype)) for column in SCALARS]
    for column in list_columns(schema, has_pairs):
        element = pa.field("element", pa.from_numpy_dtype(column.dtype), nullable=False)
        # 64-bit list offsets: a shard read as one table can hold more than 2³¹ pairs.
        fields.append(_field(column, pa.large_list(element)))
    about = json.dumps({"task": schema.task, "points": "along a space-filling curve in (eta, phi)"})
    return pa.schema(fields, metadata={"hept": about})


def arrays_of(cloud: PointCloud, schema: Schema, has_pairs: bool) -> dict[str, NDArray[Any]]:
    """The cloud's arrays in file order, checked against the schema.

    Raises:
        InputError: A column is missing, has another length or another type, or pair lists do not fit.
    """
    arrays = {column.name: _checked(cloud, column) for column in schema.columns}
    if has_pairs != (cloud.positives is not None and cloud.negatives is not None):
        raise InputError(
            name_cloud(cloud),
            found="pair lists" if not has_pairs else "no pair lists",
            expected="either pairs in every cloud of a dataset or in none",
            remedy="build all clouds with the same pair definition",
        )
    if cloud.positives is not None and cloud.negatives is not None:
        arrays |= _pair_arrays(cloud, "pos", cloud.positives) | _pair_arrays(cloud, "neg", cloud.negatives)
    return arrays


def cloud_from(
    task_schema: Schema, event_id: int, sector: int, arrays: Mapping[str, NDArray[Any]]
) -> PointCloud:
    """A cloud around arrays that were read; pair lists are optional."""
    return PointCloud(
        task=task_schema.task,
        event_id=event_id,
        sector=sector,
        columns={name: values for name, values in arrays.items() if name not in PAIR_NAMES},
        positives=PairList(arrays["pos_ptr"], arrays["pos_idx"]) if "pos_ptr" in arrays else None,
        negatives=PairList(arrays["neg_ptr"], arrays["neg_idx"]) if "neg_ptr" in arrays else None,
        schema=task_schema,
    )


def name_cloud(cloud: PointCloud) -> str:
    """The name of a cloud in messages."""
    return f"event {cloud.event_id}, sector {cloud.sector}"


def _field(column: Column, dtype: pa.DataType) -> pa.Field:
    return pa.field(
        column.name, dtype, nullable=False, metadata={"unit": column.unit, "meaning": column.meaning}
    )


def _checked(cloud: PointCloud, column: Column) -> NDArray[Any]:
    values = cloud.columns.get(column.name)
    if values is None:
        raise InputError(
            name_cloud(cloud),
            found=f"no column {column.name!r}",
            expected=f"every column of the {cloud.task} schema",
            remedy=nearest_name(column.name, list(cloud.columns)),
        )
    if len(values) != cloud.n_points or values.dtype != np.dtype(column.dtype):
        raise InputError(
            f"{name_cloud(cloud)}, column {column.name}",
            found=f"{len(values)} values of type {values.dtype}",
            expected=f"{cloud.n_points} values of type {column.dtype}",
            remedy="convert the column before writing",
        )
    return np.ascontiguousarray(values)


def _check_count(cloud: PointCloud, prefix: str, pairs: PairList) -> None:
    if pairs.n_pairs > MAX_PAIRS:
        raise InputError(
            f"{name_cloud(cloud)}, pairs {prefix}",
            found=f"{pairs.n_pairs} pairs",
            expected=f"at most {MAX_PAIRS}: one Parquet page",
            remedy="build with fewer negatives a point, or in more sectors",
        )


def _pair_arrays(cloud: PointCloud, prefix: str, pairs: PairList) -> dict[str, NDArray[Any]]:
    _check_count(cloud, prefix, pairs)
    ptr, idx = np.ascontiguousarray(pairs.ptr, np.int32), np.ascontiguousarray(pairs.idx, np.int32)
    if len(ptr) != cloud.n_points + 1 or ptr[0] != 0 or ptr[-1] != len(idx):
        raise InputError(
            f"{name_cloud(cloud)}, pairs {prefix}",
            found=f"{len(ptr) - 1} rows that end at {ptr[-1:]}, {len(idx)} partners",
            expected=f"{cloud.n_points} rows that end at {len(idx)}",
            remedy="build the pair lists on the same points",
        )
    return {f"{prefix}_ptr": ptr, f"{prefix}_idx": idx}
