"""Read the shards of a dataset in either format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.schema import Column
from hepdata.storage.columns import cloud_from, list_columns
from hepdata.storage.dataset.manifest import Manifest, ShardRecord
from hepdata.storage.location import DatasetLocation

ROW_DTYPE = np.dtype([("event_id", "<i8"), ("sector", "<i4"), ("n_points", "<i4")])


class ShardReader(Protocol):
    """Random access to the clouds of one file.

    Attributes:
        rows: One `ROW_DTYPE` entry per cloud.
    """

    rows: NDArray[Any]

    def read(self, row: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud; only these are read and checked.

        Raises:
            InputError: The bytes are damaged.
        """

    def close(self) -> None:
        """Close the file."""


def open_shard(root: DatasetLocation, manifest: Manifest, shard: ShardRecord) -> ShardReader:
    """Open one file of a dataset.

    Raises:
        InputError: The file is missing, truncated, or damaged.
    """
    columns: tuple[Column, ...] = list_columns(manifest.as_schema(), manifest.has_pairs)
    if manifest.file_format == "hdf5":
        from hepdata.storage.hdf5.reader import Hdf5Shard

        return Hdf5Shard(root, shard, columns)
    from hepdata.storage.parquet.reader import ParquetShard

    return ParquetShard(root, shard, columns)


def read_shards(
    root: DatasetLocation, manifest: Manifest, shards: Iterable[ShardRecord]
) -> Iterator[PointCloud]:
    """The clouds of some files, in order, one in memory at a time.

    Raises:
        InputError: A file is missing, truncated, or damaged.
    """
    schema = manifest.as_schema()
    names = [column.name for column in list_columns(schema, manifest.has_pairs)]
    for shard in shards:
        reader = open_shard(root, manifest, shard)
        try:
            for row, entry in enumerate(reader.rows):
                yield cloud_from(
                    schema, int(entry["event_id"]), int(entry["sector"]), reader.read(row, names)
                )
        finally:
            reader.close()


def damaged(where: str, found: str) -> InputError:
    """The error for damaged bytes."""
    return InputError(
        where,
        found=found,
        expected="the bytes that were written",
        remedy="copy the file again or build the dataset again; hept-data validate lists all damage",
    )


def missing(where: str) -> InputError:
    """The error for a shard that the manifest lists and the folder lacks."""
    return InputError(
        where,
        found="no such file",
        expected="a shard that the manifest lists",
        remedy="copy the missing file, or build the dataset again",
    )
