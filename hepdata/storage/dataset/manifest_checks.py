"""Checks of a manifest before it is used: plain names, bounded numbers, consistent parts.

Manifests are untrusted input: names are used as paths, sizes for allocations, texts as labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, StringConstraints

from hepdata.schema import Column, Schema, Target

if TYPE_CHECKING:
    from hepdata.storage.dataset.manifest import Manifest, ShardRecord

MAX_MANIFEST_BYTES = 1 << 30
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64")

Count = Annotated[int, Field(ge=0, lt=2**62)]
EventId = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# No separators, no leading dot or dash, no characters that are special to a file system or a terminal.
SplitName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
ShardName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\.(parquet|h5)$")]
_COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Kinds of numbers, as numpy names them, of the columns of a target.
_TARGET_KINDS = {"label": "iub", "selection": "b", "pt": "fiu", "eta": "fiu", "point_id": "iu"}
_RESERVED = {"event_id", "sector", "n_points", "pos_ptr", "pos_idx", "neg_ptr", "neg_idx"}


def find_problems(manifest: Manifest) -> Iterator[str]:
    """Problems that the types do not exclude: parts that disagree, columns that cannot be stored."""
    yield from find_column_problems(manifest.columns, manifest.target)
    names = {column.name for column in manifest.columns}
    for kind in ("features", "coordinates"):
        for entry in getattr(manifest, kind):
            if entry.column not in names:
                yield f"{kind} name the missing column {entry.column!r}"
    yield from _check_splits(manifest.splits, manifest.file_format)
    if set(manifest.totals) != set(manifest.splits):
        yield f"totals of the splits {sorted(manifest.totals)} for the splits {sorted(manifest.splits)}"
        return
    for split, shards in manifest.splits.items():
        for what in ("n_clouds", "n_points", "n_positives", "n_negatives"):
            total = sum(getattr(shard.statistics, what) for shard in shards)
            said = getattr(manifest.totals[split], what)
            if said != total:
                yield f"{what} {said} in split {split}, whose shards add to {total}"


def find_schema_problem(schema: Schema) -> str | None:
    """A text of the schema that cannot label an axis: matplotlib reads a dollar sign as a formula."""
    texts = [column.unit for column in schema.columns]
    texts += [*schema.target.label_names, schema.target.scored] if schema.target else []
    return next((f"the text {text[:50]!r}" for text in texts if "$" in text or len(text) > 200), None)


def find_column_problems(columns: Sequence[Column], target: Target | None) -> Iterator[str]:
    """Columns that cannot be stored, and columns of a target that have another type than it needs."""
    names = [column.name for column in columns]
    for column in columns:
        if not _COLUMN_NAME.fullmatch(column.name) or column.name in _RESERVED:
            yield f"a column with the name {column.name[:130]!r}"
        elif names.count(column.name) > 1:
            yield f"the column {column.name!r} twice"
        if column.dtype not in DTYPES:
            yield f"the type {column.dtype[:50]!r} of the column {column.name!r}"
            return
        if column.n_classes and np.dtype(column.dtype).kind not in "iu":
            yield f"classes of type {column.dtype} in the column {column.name!r}"
        if not 0 <= column.n_classes <= 1_000_000:
            yield f"{column.n_classes} classes of the column {column.name!r}"
        if column.period is not None and not 0 < column.period < float("inf"):
            yield f"the period {column.period} of the column {column.name!r}"
    for field, kinds in _TARGET_KINDS.items() if target is not None else ():
        for column in columns:
            if column.name == getattr(target, field) and np.dtype(column.dtype).kind not in kinds:
                yield f"the {field} {column.name!r} of type {column.dtype}"


def _check_splits(splits: Mapping[str, Sequence[ShardRecord]], file_format: str) -> Iterator[str]:
    suffix = ".parquet" if file_format == "parquet" else ".h5"
    seen: set[str] = set()
    for shards in splits.values():
        for shard in shards:
            if shard.name in seen or not shard.name.endswith(suffix):
                yield f"the file {shard.name!r} {'twice' if shard.name in seen else f'in {file_format}'}"
            seen.add(shard.name)
            if shard.footer_bytes > shard.bytes:
                yield f"{shard.name}: an index of {shard.footer_bytes} bytes in a file of {shard.bytes}"
            if shard.statistics.n_clouds != shard.rows or len(shard.event_ids) > shard.rows:
                counts = f"{shard.statistics.n_clouds} clouds and {len(shard.event_ids)} events"
                yield f"{shard.name}: {counts} in {shard.rows} rows"
            if shard.rows_per_part and sum(shard.rows_per_part) != shard.rows:
                yield f"{shard.name}: parts of {sum(shard.rows_per_part)} rows for {shard.rows}"
