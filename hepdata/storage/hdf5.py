"""HDF5 files: the same names as in Parquet, one flat array per column and the offsets of every cloud.

Layout of a file with B clouds, N points and E pairs in all:
    event_id, sector, n_points   (B,)
    point_offsets                (B + 1,)   cloud b has the points point_offsets[b] … point_offsets[b + 1]
    eta, phi, …                  (N,)       every column of the schema
    pos_ptr, neg_ptr             (N + B,)   the row limits of cloud b begin at point_offsets[b] + b
    pos_offsets, neg_offsets     (B + 1,)   and its partners at pos_offsets[b], neg_offsets[b]
    pos_idx, neg_idx             (E,)
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
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.statistics import Statistics, add_up, count_cloud

Compression = Literal["gzip", "none"]
# Elements per chunk: small enough that one cloud's read touches little else, large enough to compress.
POINT_CHUNK = 8192
PAIR_CHUNK = 65536


@dataclass(frozen=True)
class Sizes:
    """Lengths that a file's arrays will have: all are known before it is written."""

    n_clouds: int
    n_points: int
    n_positives: int
    n_negatives: int

    @classmethod
    def of(cls, statistics: Statistics) -> Sizes:
        """The sizes that the statistics of all clouds tell."""
        return cls(statistics.n_clouds, statistics.n_points, statistics.n_positives, statistics.n_negatives)


def write_hdf5(
    path: Path,
    clouds: Iterable[PointCloud],
    schema: Schema,
    *,
    has_pairs: bool,
    sizes: Sizes,
    rows_per_part: Sequence[int] = (),
    compression: Compression = "gzip",
) -> ShardRecord:
    """Write clouds to one HDF5 file that appears whole or not at all; taken one at a time.

    Args:
        path: The file; its name goes into the record.
        clouds: In stored order.
        schema: Columns of every cloud.
        has_pairs: Whether clouds have pair lists.
        sizes: Of all clouds together.
        rows_per_part: How the clouds lay in Parquet shards, to restore the same shards later.
        compression: "none" is larger and several times faster to read.

    Raises:
        InputError: A cloud does not fit the schema.
        JobError: The file cannot be written.
    """
    statistics: list[Statistics] = []
    event_ids: dict[int, None] = {}
    with write_atomically(path) as handle:
        # The layout of HDF5 1.10 has checksums on its metadata, those of earlier versions have none.
        with h5py.File(handle.name, "w", libver=("v110", "v110")) as file:
            writers = _create(file, schema, has_pairs, sizes, compression)
            for cloud in clouds:
                for name, values in _flat_arrays(cloud, schema, has_pairs).items():
                    writers[name].append(values)
                statistics.append(count_cloud(cloud))
                event_ids[cloud.event_id] = None
            _append_offsets(writers, statistics, has_pairs)
            for writer in writers.values():
                writer.finish()
        with Path(handle.name).open("rb") as written:
            sha256, size = hashlib.file_digest(written, "sha256").hexdigest(), written.tell()
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
    compression: Compression = "gzip",
) -> list[ShardRecord]:
    """Write the clouds of Parquet shards to `SPLIT.h5` in `staging`; no file for a split without clouds."""
    statistics = add_up([shard.statistics for shard in shards])
    if not statistics.n_clouds:
        return []
    record = write_hdf5(
        staging / f"{split}.h5",
        clouds,
        schema,
        has_pairs=any(shard.has_pairs for shard in shards),
        sizes=Sizes.of(statistics),
        rows_per_part=[shard.rows for shard in shards],
        compression=compression,
    )
    return [record]


class _Appender:
    """Writes a dataset in whole chunks, so that none is written twice."""

    def __init__(self, dataset: h5py.Dataset, block: int) -> None:
        self._dataset = dataset
        self._block = block
        self._waiting: list[NDArray[Any]] = []
        self._n_waiting = 0
        self._written = 0

    def append(self, values: NDArray[Any]) -> None:
        self._waiting.append(values)
        self._n_waiting += len(values)
        if self._n_waiting >= self._block:
            self._write(self._n_waiting - self._n_waiting % self._block)

    def finish(self) -> None:
        self._write(self._n_waiting)

    def _write(self, n: int) -> None:
        values = np.concatenate(self._waiting) if self._waiting else np.empty(0, self._dataset.dtype)
        if n:
            self._dataset[self._written : self._written + n] = values[:n]
        # Copied: a view would keep the whole array in memory.
        self._waiting, self._n_waiting = [values[n:].copy()], len(values) - n
        self._written += n


def _create(
    file: h5py.File, schema: Schema, has_pairs: bool, sizes: Sizes, compression: Compression
) -> dict[str, _Appender]:
    file.attrs["hept"] = json.dumps({"task": schema.task, "layout": "flat arrays and offsets"})
    lengths = {
        "pos_ptr": sizes.n_points + sizes.n_clouds,
        "neg_ptr": sizes.n_points + sizes.n_clouds,
        "pos_idx": sizes.n_positives,
        "neg_idx": sizes.n_negatives,
    }
    wanted = [(column, sizes.n_clouds) for column in SCALARS]
    wanted += [
        (column, lengths.get(column.name, sizes.n_points)) for column in list_columns(schema, has_pairs)
    ]
    offsets = ["point_offsets", *(["pos_offsets", "neg_offsets"] if has_pairs else [])]
    wanted += [
        (Column(name, "int64", "", "where every cloud begins"), sizes.n_clouds + 1) for name in offsets
    ]
    writers = {}
    for column, length in wanted:
        largest = PAIR_CHUNK if column.name in ("pos_idx", "neg_idx") else POINT_CHUNK
        chunk = max(1, min(length, largest))
        is_packed = compression == "gzip" and length > 0
        dataset = file.create_dataset(
            column.name,
            shape=(length,),
            dtype=column.dtype,
            chunks=(chunk,) if length else None,
            compression="gzip" if is_packed else None,
            compression_opts=1 if is_packed else None,
            # Regrouped bytes make points smaller; pair indices are small without, and faster to read.
            shuffle=is_packed and column not in PAIRS,
            fletcher32=length > 0,
        )
        dataset.attrs["unit"], dataset.attrs["meaning"] = column.unit, column.meaning
        writers[column.name] = _Appender(dataset, chunk)
    return writers


def _append_offsets(writers: dict[str, _Appender], statistics: list[Statistics], has_pairs: bool) -> None:
    counts = {"point_offsets": [cloud.n_points for cloud in statistics]}
    if has_pairs:
        counts["pos_offsets"] = [cloud.n_positives for cloud in statistics]
        counts["neg_offsets"] = [cloud.n_negatives for cloud in statistics]
    for name, sizes in counts.items():
        writers[name].append(np.cumsum([0, *sizes], dtype=np.int64))


def _flat_arrays(cloud: PointCloud, schema: Schema, has_pairs: bool) -> dict[str, NDArray[Any]]:
    arrays = arrays_of(cloud, schema, has_pairs)
    scalars = {"event_id": cloud.event_id, "sector": cloud.sector, "n_points": cloud.n_points}
    return arrays | {column.name: np.array([scalars[column.name]], column.dtype) for column in SCALARS}
