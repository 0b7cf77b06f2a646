"""Parquet shards: clouds enter one at a time, a file leaves whose bytes depend on nothing else.

One row is one cloud, one row group holds one row, so that a cloud can be read without its neighbours.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable
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
from hepdata.storage.pages import INDEX_DTYPE, INDEX_KEY
from hepdata.storage.parquet_reader import ROWS_KEY
from hepdata.storage.reader import ROW_DTYPE
from hepdata.storage.statistics import Tally


def write_shard(
    path: Path,
    clouds: Iterable[PointCloud],
    schema: Schema,
    *,
    has_pairs: bool | None = None,
    is_synced: bool = True,
    has_rivals: bool = False,
) -> ShardRecord:
    """Write clouds to a Parquet file that appears whole or not at all.

    Its name is on the disk when whoever finishes the dataset syncs the folder.

    Args:
        path: The file; its name goes into the record.
        clouds: In stored order; taken one at a time.
        schema: Columns of every cloud.
        has_pairs: Whether clouds have pair lists; taken from the first cloud where not given.
        is_synced: Whether to wait until the bytes are on the disk.
        has_rivals: Whether other processes may be writing the same file.

    Returns:
        What the manifest says of the shard.

    Raises:
        InputError: A cloud does not fit the schema.
        JobError: The file cannot be written.
    """
    with write_atomically(path, sync_content=is_synced, sync_name=False, has_rivals=has_rivals) as file:
        shard = _OpenShard(file, schema, has_pairs)
        for cloud in clouds:
            shard.add(cloud)
            # Let go before the next one is made: one cloud in memory at a time.
            del cloud
        footer = shard.finish()
    return ShardRecord(
        name=path.name,
        rows=len(shard.rows),
        bytes=shard.position,
        sha256=shard.digest.hexdigest(),
        footer_bytes=len(footer),
        footer_crc=zlib.crc32(footer),
        has_pairs=bool(shard.has_pairs),
        event_ids=list(dict.fromkeys(row[0] for row in shard.rows)),
        statistics=shard.statistics.total(),
    )


class _OpenShard:
    """A file that grows by one row group a cloud, hashed as it is written."""

    def __init__(self, file: BinaryIO, schema: Schema, has_pairs: bool | None) -> None:
        self.schema = schema
        self.has_pairs = has_pairs
        self.digest = hashlib.sha256()
        self.position = 0
        self.rows: list[tuple[int, int, int]] = []
        self.statistics = Tally()
        self._file = file
        self._encoder: RowGroupEncoder | None = None
        self._index: list[tuple[int, ...]] = []
        self._groups: list[bytes] = []
        self._write(MAGIC)

    def add(self, cloud: PointCloud) -> None:
        if self.has_pairs is None:
            self.has_pairs = cloud.positives is not None
        if self._encoder is None:
            self._encoder = RowGroupEncoder(list_columns(self.schema, self.has_pairs))
        arrays = arrays_of(cloud, self.schema, self.has_pairs)
        row = (int(cloud.event_id), cloud.sector, cloud.n_points)
        group = self._encoder.encode(row, arrays, self.position)
        self._write(group.content)
        self.rows.append(row)
        self.statistics.add(cloud)
        self._index += group.entries
        self._groups.append(group.metadata)

    def finish(self) -> bytes:
        """Write the footer, and give it back."""
        has_pairs = bool(self.has_pairs)
        notes = {
            ROWS_KEY: base64.b64encode(np.array(self.rows, dtype=ROW_DTYPE).tobytes()),
            INDEX_KEY: base64.b64encode(np.array(self._index, dtype=INDEX_DTYPE).tobytes()),
        }
        footer = make_footer(
            list_columns(self.schema, has_pairs), arrow_schema(self.schema, has_pairs), self._groups, notes
        )
        self._write(footer)
        return footer

    def _write(self, content: bytes) -> None:
        self._file.write(content)
        self.digest.update(content)
        self.position += len(content)
