"""Parquet shards: clouds enter one at a time, a file leaves whose bytes depend on nothing else.

One row is one cloud, one row group holds one row, so that a cloud can be read without its neighbours.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.schema import Schema
from hepdata.storage.atomic import write_atomically
from hepdata.storage.columns import SCALARS, arrays_of, arrow_schema, list_columns
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.pages import compression_of, encoding_of, index_row_group
from hepdata.storage.parquet_reader import INDEX_KEY, ROWS_KEY
from hepdata.storage.reader import ROW_DTYPE
from hepdata.storage.statistics import Statistics, add_up, count_cloud

# One page per column and cloud: the reader relies on it. Parquet's own limit is 2 GiB.
_PAGE_SIZE = 2**31 - 1


def write_shard(
    path: Path, clouds: Iterable[PointCloud], schema: Schema, *, has_pairs: bool | None = None
) -> ShardRecord:
    """Write clouds to a Parquet file that appears whole or not at all.

    Args:
        path: The file; its name goes into the record.
        clouds: In stored order; taken one at a time.
        schema: Columns of every cloud.
        has_pairs: Whether clouds have pair lists; taken from the first cloud where not given.

    Returns:
        What the manifest says of the shard.

    Raises:
        InputError: A cloud does not fit the schema.
        JobError: The file cannot be written.
    """
    stream = iter(clouds)
    first = next(stream, None)
    if has_pairs is None:
        has_pairs = first is not None and first.positives is not None
    with write_atomically(path) as file:
        sink = _Sink(file)
        rows, statistics = _write_rows(sink, _chain(first, stream), schema, has_pairs)
    return ShardRecord(
        name=path.name,
        rows=len(rows),
        bytes=sink.position,
        sha256=sink.digest.hexdigest(),
        footer_bytes=sink.last_length,
        footer_crc=sink.last_crc,
        has_pairs=has_pairs,
        event_ids=list(dict.fromkeys(int(row[0]) for row in rows)),
        statistics=statistics,
    )


def _write_rows(
    sink: _Sink, clouds: Iterator[PointCloud], schema: Schema, has_pairs: bool
) -> tuple[list[tuple[int, int, int]], Statistics]:
    columns = list_columns(schema, has_pairs)
    layout = arrow_schema(schema, has_pairs)
    codecs = {column.name: "zstd" for column in SCALARS}
    codecs |= {f"{column.name}.list.element": compression_of(column) for column in columns}
    rows: list[tuple[int, int, int]] = []
    index: list[NDArray[Any]] = []
    statistics: list[Statistics] = []
    with pq.ParquetWriter(
        pa.PythonFile(sink, "w"),
        layout,
        version="2.6",
        data_page_version="2.0",
        compression=codecs,
        compression_level={path: 3 for path, codec in codecs.items() if codec == "zstd"},
        use_dictionary=False,
        column_encoding={f"{column.name}.list.element": encoding_of(column.dtype) for column in columns},
        write_statistics=[column.name for column in SCALARS],
        write_page_checksum=True,
        data_page_size=_PAGE_SIZE,
    ) as writer:
        sink.take()
        for cloud in clouds:
            arrays = arrays_of(cloud, schema, has_pairs)
            rows.append((cloud.event_id, cloud.sector, cloud.n_points))
            statistics.append(count_cloud(cloud))
            writer.write_table(_row(rows[-1], arrays, layout))
            offset = sink.position
            index.append(index_row_group(sink.take(), offset)[len(SCALARS) :])
            # Let go before the next one is made: one cloud in memory at a time.
            del cloud, arrays
        writer.add_key_value_metadata(
            {
                ROWS_KEY: _as_text(np.array(rows, dtype=ROW_DTYPE)),
                INDEX_KEY: _as_text(np.concatenate(index) if index else np.empty(0)),
            }
        )
    sink.take()
    return rows, add_up(statistics)


def _row(row: tuple[int, int, int], arrays: dict[str, NDArray[Any]], layout: pa.Schema) -> pa.Table:
    cells = [pa.array([value], type=layout.field(i).type) for i, value in enumerate(row)]
    for name, values in arrays.items():
        limits = pa.array([0, len(values)], pa.int64())
        cells.append(pa.LargeListArray.from_arrays(limits, pa.array(values), type=layout.field(name).type))
    return pa.Table.from_arrays(cells, schema=layout)


def _as_text(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _chain(first: PointCloud | None, rest: Iterator[PointCloud]) -> Iterator[PointCloud]:
    if first is not None:
        yield first
        del first
    yield from rest


class _Sink(io.RawIOBase):
    """Collects what Arrow writes for one row group, then hashes it and passes it on to the file."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.position = 0
        self.last_length = self.last_crc = 0
        self._waiting: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._waiting.append(bytes(content))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        """Everything since the last call; it is in the file when this returns."""
        content = b"".join(self._waiting)
        self._waiting.clear()
        self.file.write(content)
        self.digest.update(content)
        self.position += len(content)
        self.last_length, self.last_crc = len(content), zlib.crc32(content)
        return content
