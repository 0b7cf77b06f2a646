"""Write Parquet shards with pyarrow; the bytes depend on the clouds only.

One row is one cloud, and one row group holds one row, so that a cloud can be read on its own. Points are not
compressed: they are few, and decompressing takes longer than reading. Pair lists are most of the bytes, and
zstd makes them more than twenty times smaller.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hepdata.cloud import PointCloud
from hepdata.schema import Schema
from hepdata.storage.atomic import write_atomically
from hepdata.storage.columns import PAIR_NAMES, SCALARS, arrays_of, arrow_schema, list_columns
from hepdata.storage.dataset.manifest import ShardRecord
from hepdata.storage.dataset.statistics import Statistics, count_cloud
from hepdata.storage.parquet.reader import ROWS_KEY
from hepdata.storage.shard_reader import ROW_DTYPE


def write_shard(
    path: Path,
    clouds: Iterable[PointCloud],
    schema: Schema,
    *,
    has_pairs: bool | None = None,
    has_rivals: bool = False,
) -> ShardRecord:
    """Write clouds to a Parquet file atomically.

    The folder is not flushed to the disk: that is done once, when the dataset is finished.

    Args:
        path: The file; its name goes into the record.
        clouds: In stored order; taken one at a time.
        schema: Columns of every cloud.
        has_pairs: Whether clouds have pair lists; None means: as the first cloud.
        has_rivals: Whether other processes may be writing the same file.

    Returns:
        The record of the shard for the manifest.

    Raises:
        InputError: A cloud does not fit the schema.
        JobError: The file cannot be written.
    """
    with write_atomically(path, sync_name=False, has_rivals=has_rivals) as file:
        with _OpenShard(file.name, schema, has_pairs) as shard:
            for cloud in clouds:
                shard.add(cloud)
                # Released before the next one is made: one cloud in memory at a time.
                del cloud
        footer = _read_footer(file)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        size = file.tell()
    return ShardRecord(
        name=path.name,
        rows=len(shard.rows),
        bytes=size,
        sha256=sha256,
        footer_bytes=len(footer),
        footer_crc=zlib.crc32(footer),
        has_pairs=bool(shard.has_pairs),
        event_ids=list(dict.fromkeys(row[0] for row in shard.rows)),
        statistics=shard.statistics,
    )


class _OpenShard:
    """A file under construction: one row group per cloud."""

    def __init__(self, path: str, schema: Schema, has_pairs: bool | None) -> None:
        self.schema = schema
        self.has_pairs = has_pairs
        self.rows: list[tuple[int, int, int]] = []
        self.statistics = Statistics()
        # Not a Python file: pyarrow would need the GIL for every page.
        self._file = pa.OSFile(path, "wb")
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _OpenShard:
        return self

    def add(self, cloud: PointCloud) -> None:
        if self.has_pairs is None:
            self.has_pairs = cloud.positives is not None
        arrays = arrays_of(cloud, self.schema, self.has_pairs)
        row = (int(cloud.event_id), cloud.sector, cloud.n_points)
        writer = self._open()
        fields = iter(writer.schema)
        cells = [pa.array([value], next(fields).type) for value in row]
        limits = {n: pa.array([0, n], pa.int64()) for n in set(map(len, arrays.values()))}
        cells += [
            pa.LargeListArray.from_arrays(limits[len(values)], pa.array(values), type=next(fields).type)
            for values in arrays.values()
        ]
        writer.write_table(pa.Table.from_arrays(cells, schema=writer.schema))
        self.rows.append(row)
        self.statistics = self.statistics + count_cloud(cloud)

    def __exit__(self, *error: object) -> None:
        # Closed after an error too: otherwise pyarrow does so later, when the file no longer exists.
        writer = self._open()
        rows = np.array(self.rows, dtype=ROW_DTYPE).tobytes()
        writer.add_key_value_metadata({ROWS_KEY: base64.b64encode(rows)})
        try:
            writer.close()
        finally:
            # After a disk error pyarrow would try to close again when the writer is garbage-collected.
            writer.is_open = False
            self._file.close()

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            has_pairs = bool(self.has_pairs)
            names = [column.name for column in list_columns(self.schema, has_pairs)]
            paths = {name: f"{name}.list.element" for name in names}
            self._writer = pq.ParquetWriter(
                self._file,
                arrow_schema(self.schema, has_pairs),
                data_page_version="2.0",
                write_page_checksum=True,
                use_dictionary=False,
                # Given explicitly because booleans have another default.
                column_encoding=dict.fromkeys(paths.values(), "PLAIN"),
                compression={
                    **{column.name: "none" for column in SCALARS},
                    **{paths[name]: "zstd" if name in PAIR_NAMES else "none" for name in names},
                },
                # Readers use min and max of scalars to skip row groups; those of list elements are useless.
                write_statistics=[column.name for column in SCALARS],
                # Arrow's default pool does not return freed memory: long builds would grow.
                memory_pool=pa.system_memory_pool(),
            )
        return self._writer


def _read_footer(file: BinaryIO) -> bytes:
    """The metadata at the end of a Parquet file, its length and the last magic number."""
    file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little") + 8
    file.seek(-length, os.SEEK_END)
    return file.read()
