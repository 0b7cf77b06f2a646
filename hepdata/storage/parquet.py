"""Parquet shards: clouds enter one at a time, a file leaves whose bytes depend on nothing else.

One row is one cloud, one row group holds one row, so that a cloud can be read without its neighbours.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hepdata.cloud import PointCloud
from hepdata.schema import Schema
from hepdata.storage.atomic import write_atomically
from hepdata.storage.columns import arrays_of, arrow_schema, list_columns
from hepdata.storage.footer import MAGIC, make_footer
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.page_writer import RowGroupEncoder
from hepdata.storage.pages import INDEX_DTYPE
from hepdata.storage.parquet_reader import INDEX_KEY, ROWS_KEY
from hepdata.storage.reader import ROW_DTYPE
from hepdata.storage.statistics import Statistics, add_up, count_cloud


def write_shard(
    path: Path, clouds: Iterable[PointCloud], schema: Schema, *, has_pairs: bool | None = None
) -> ShardRecord:
    """Write clouds to a Parquet file that appears whole or not at all.

    Its bytes are on the disk afterwards; its name is when whoever finishes the dataset syncs the folder.

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
    with write_atomically(path, sync_name=False) as file:
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
    encoder = RowGroupEncoder(columns)
    rows: list[tuple[int, int, int]] = []
    index: list[tuple[int, ...]] = []
    groups: list[bytes] = []
    statistics: list[Statistics] = []
    sink.write(MAGIC)
    for cloud in clouds:
        rows.append((cloud.event_id, cloud.sector, cloud.n_points))
        group = encoder.encode(rows[-1], arrays_of(cloud, schema, has_pairs), sink.position)
        statistics.append(count_cloud(cloud))
        # Let go before the next one is made: one cloud in memory at a time.
        del cloud
        sink.write(group.content)
        index += group.entries
        groups.append(group.metadata)
        del group
    notes = {
        ROWS_KEY: base64.b64encode(np.array(rows, dtype=ROW_DTYPE).tobytes()),
        INDEX_KEY: base64.b64encode(np.array(index, dtype=INDEX_DTYPE).tobytes()),
    }
    sink.write(make_footer(columns, arrow_schema(schema, has_pairs), groups, notes))
    return rows, add_up(statistics)


def _chain(first: PointCloud | None, rest: Iterator[PointCloud]) -> Iterator[PointCloud]:
    if first is not None:
        yield first
        del first
    yield from rest


class _Sink:
    """A file whose content is hashed as it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.position = 0
        self.last_length = self.last_crc = 0

    def write(self, content: bytes) -> None:
        self.file.write(content)
        self.digest.update(content)
        self.position += len(content)
        self.last_length, self.last_crc = len(content), zlib.crc32(content)
