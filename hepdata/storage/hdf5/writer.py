"""HDF5 files: the same names as in Parquet, one flat array per column and the offsets of every cloud.

Layout of a file with B clouds, N points and E pairs in all:
    event_id, sector, n_points   (B,)
    point_offsets                (B + 1,)   cloud b has the points point_offsets[b] … point_offsets[b + 1]
    eta, phi, …                  (N,)       every column of the schema
    pos_ptr, neg_ptr             (N + B,)   the row limits of cloud b begin at point_offsets[b] + b
    pos_offsets, neg_offsets     (B + 1,)   and its partners at pos_offsets[b], neg_offsets[b]
    pos_idx, neg_idx             (E,)
    checksums                    (B, columns)   of every cloud's part of every array

Without compression every array is contiguous, and HDF5 reads it as fast as the file system allows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.schema import Column, Schema
from hepdata.storage.atomic import write_atomically
from hepdata.storage.columns import PAIRS, SCALARS, arrays_of, list_columns
from hepdata.storage.dataset.manifest import ShardRecord
from hepdata.storage.dataset.names import name_hdf5
from hepdata.storage.dataset.statistics import Statistics, add_up, count_cloud
from hepdata.storage.hdf5.checksum import sum_words
from hepdata.storage.hdf5.new_file import create_hdf5

Compression = Literal["gzip", "none"]
# Elements per chunk: small enough that one cloud's read touches little else, large enough to compress.
POINT_CHUNK = 8192
PAIR_CHUNK = 65536


@dataclass(frozen=True)
class Sizes:
    """Lengths of a file's arrays; all are known before it is written."""

    n_clouds: int
    n_points: int
    n_positives: int
    n_negatives: int

    @classmethod
    def of(cls, statistics: Statistics) -> Sizes:
        """The sizes of clouds with these statistics."""
        return cls(statistics.n_clouds, statistics.n_points, statistics.n_positives, statistics.n_negatives)

    def length_of(self, column: Column) -> int:
        """Elements of one array."""
        lengths = {
            "pos_ptr": self.n_points + self.n_clouds,
            "neg_ptr": self.n_points + self.n_clouds,
            "pos_idx": self.n_positives,
            "neg_idx": self.n_negatives,
        }
        return lengths.get(column.name, self.n_points)


def write_hdf5(
    path: Path,
    clouds: Iterable[PointCloud],
    schema: Schema,
    *,
    has_pairs: bool,
    sizes: Sizes,
    rows_per_part: Sequence[int] = (),
    compression: Compression = "none",
) -> ShardRecord:
    """Write clouds to one HDF5 file atomically, with one cloud in memory at a time.

    Args:
        path: The file; its name goes into the record.
        clouds: In stored order.
        schema: Columns of every cloud.
        has_pairs: Whether clouds have pair lists.
        sizes: Of all clouds together.
        rows_per_part: Clouds per Parquet shard, to restore the same shards later.
        compression: "gzip" is smaller, by a factor of ten where pairs are many, and several times slower.

    Raises:
        InputError: A cloud does not fit the schema.
        JobError: The file cannot be written.
    """
    statistics: list[Statistics] = []
    event_ids: dict[int, None] = {}
    checksums: list[list[int]] = []
    with write_atomically(path) as handle:
        with create_hdf5(handle) as file:
            writers = _create(file, schema, has_pairs, sizes, compression)
            for cloud in clouds:
                arrays = arrays_of(cloud, schema, has_pairs)
                for name, values in (arrays | _scalars(cloud)).items():
                    writers[name].append(values)
                checksums.append([sum_words(values) for values in arrays.values()])
                statistics.append(count_cloud(cloud))
                event_ids[cloud.event_id] = None
            if checksums:
                file["checksums"][...] = np.array(checksums, np.uint64)
            _append_offsets(writers, statistics, has_pairs)
        handle.seek(0)
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()  # type: ignore[arg-type]
        size = handle.tell()
    return ShardRecord(
        name=path.name,
        rows=sizes.n_clouds,
        bytes=size,
        sha256=sha256,
        footer_bytes=0,
        footer_crc=0,
        has_pairs=has_pairs,
        event_ids=list(event_ids),
        statistics=add_up(statistics),
        rows_per_part=list(rows_per_part) or [sizes.n_clouds],
    )


def split_to_hdf5(
    staging: Path,
    split: str,
    clouds: Iterable[PointCloud],
    schema: Schema,
    shards: Sequence[ShardRecord],
    compression: Compression = "none",
) -> list[ShardRecord]:
    """Write the clouds of Parquet shards to `SPLIT.h5` in `staging`; no file for a split without clouds."""
    statistics = add_up([shard.statistics for shard in shards])
    if not statistics.n_clouds:
        return []
    record = write_hdf5(
        staging / name_hdf5(split),
        clouds,
        schema,
        has_pairs=any(shard.has_pairs for shard in shards),
        sizes=Sizes.of(statistics),
        rows_per_part=[rows for shard in shards for rows in shard.rows_per_part or [shard.rows]],
        compression=compression,
    )
    return [record]


class _Appender:
    """Writes an HDF5 dataset piece by piece; chunks stay in HDF5's cache until they are full."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._written = 0

    def append(self, values: NDArray[Any]) -> None:
        end = self._written + len(values)
        if len(values):
            self._dataset[self._written : end] = values
        self._written = end


def _create(
    file: h5py.File, schema: Schema, has_pairs: bool, sizes: Sizes, compression: Compression
) -> dict[str, _Appender]:
    file.attrs["hept"] = json.dumps({"task": schema.task, "layout": "flat arrays and offsets"})
    columns = list_columns(schema, has_pairs)
    index = list(SCALARS)
    offsets = ["point_offsets", *(["pos_offsets", "neg_offsets"] if has_pairs else [])]
    index += [Column(name, "int64", "", "where every cloud begins") for name in offsets]
    writers = {}
    for column in index:
        length = sizes.n_clouds + (column.name in offsets)
        writers[column.name] = _Appender(_create_checked(file, column, (length,)))
    for column in columns:
        writers[column.name] = _Appender(_create_column(file, column, sizes.length_of(column), compression))
    checksums = Column(
        "checksums", "uint64", "", "sum of the 64-bit words of every cloud's part of every array"
    )
    shape = (sizes.n_clouds, len(columns))
    _create_checked(file, checksums, shape).attrs["columns"] = [column.name for column in columns]
    return writers


def _create_checked(file: h5py.File, column: Column, shape: tuple[int, ...]) -> h5py.Dataset:
    """A small array with checksums of HDF5."""
    chunks = (min(shape[0], POINT_CHUNK), *shape[1:]) if shape[0] else None
    dataset = file.create_dataset(column.name, shape, column.dtype, chunks=chunks, fletcher32=shape[0] > 0)
    _describe(dataset, column)
    return dataset


def _create_column(file: h5py.File, column: Column, length: int, compression: Compression) -> h5py.Dataset:
    is_packed = compression == "gzip" and length > 0
    largest = PAIR_CHUNK if column.name in ("pos_idx", "neg_idx") else POINT_CHUNK
    dataset = file.create_dataset(
        column.name,
        (length,),
        column.dtype,
        chunks=(min(length, largest),) if is_packed else None,
        compression="gzip" if is_packed else None,
        compression_opts=1 if is_packed else None,
        # The shuffle filter helps floating-point numbers; pair indices compress well without it.
        shuffle=is_packed and column not in PAIRS,
    )
    _describe(dataset, column)
    return dataset


def _describe(dataset: h5py.Dataset, column: Column) -> None:
    dataset.attrs["unit"], dataset.attrs["meaning"] = column.unit, column.meaning


def _append_offsets(writers: dict[str, _Appender], statistics: list[Statistics], has_pairs: bool) -> None:
    counts = {"point_offsets": [cloud.n_points for cloud in statistics]}
    if has_pairs:
        counts["pos_offsets"] = [cloud.n_positives for cloud in statistics]
        counts["neg_offsets"] = [cloud.n_negatives for cloud in statistics]
    for name, sizes in counts.items():
        writers[name].append(np.cumsum([0, *sizes], dtype=np.int64))


def _scalars(cloud: PointCloud) -> dict[str, NDArray[Any]]:
    values = {"event_id": cloud.event_id, "sector": cloud.sector, "n_points": cloud.n_points}
    return {column.name: np.array([values[column.name]], column.dtype) for column in SCALARS}
