"""HDF5 files: the same names as in Parquet, flat arrays and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hepdata.errors import InputError
from hepdata.schema import Schema
from hepdata.storage.manifest import ShardRecord


def shards_to_hdf5(
    staging: Path, splits: Mapping[str, Sequence[ShardRecord]], schema: Schema
) -> dict[str, list[ShardRecord]]:
    """Turn the Parquet shards of each split into one HDF5 file."""
    raise InputError(
        staging,
        found="the format hdf5",
        expected="parquet",
        remedy=f"build {schema.task} {list(splits)} as parquet",
    )
