"""Random access to the clouds of Parquet shards.

The footer is read and checked once; after that, a cloud costs one read of its columns' range. Every column is
one page with a checksum in its header. Pages as version 3 writes them are decoded by
`hepdata.storage.parquet.pages`, all others by pyarrow.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.schema import Column
from hepdata.storage.columns import SCALARS
from hepdata.storage.dataset.manifest import ShardRecord
from hepdata.storage.location import DatasetLocation
from hepdata.storage.parquet.pages import ChecksumError, Chunk, decode_page
from hepdata.storage.shard_reader import ROW_DTYPE, damaged, missing

ROWS_KEY = b"hept.rows"


class ParquetShard:
    """Random access to the clouds of one Parquet file; see `hepdata.storage.shard_reader.ShardReader`.

    Keeps no file open, and has no state that changes: safe to share between threads and forked processes.
    """

    def __init__(self, root: DatasetLocation, shard: ShardRecord, columns: Sequence[Column]) -> None:
        self.where = root.name_of(shard.name)
        self._system, self._path = root.find(shard.name)
        try:
            size = self._system.size(self._path)
            footer = self._system.cat_file(self._path, max(size - shard.footer_bytes, 0), size)
        except FileNotFoundError as error:
            raise missing(self.where) from error
        if size != shard.bytes:
            raise damaged(self.where, f"{size} bytes instead of {shard.bytes}")
        if zlib.crc32(footer) != shard.footer_crc:
            raise damaged(self.where, "a footer that does not match its checksum")
        self._columns = {
            own.name: (i, np.dtype(own.dtype)) for i, own in enumerate(columns, start=len(SCALARS))
        }
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(footer))
            self.rows = np.frombuffer(base64.b64decode(self._metadata.metadata[ROWS_KEY]), ROW_DTYPE)
            is_fitting = self._fits(columns, shard.rows)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(self.where, f"a footer that makes no sense ({error})") from error
        if not is_fitting:
            raise damaged(self.where, "other columns or rows than the manifest's")

    def _fits(self, columns: Sequence[Column], n_rows: int) -> bool:
        """Whether the file has the columns and rows of the manifest; columns are found by position."""
        schema = self._metadata.schema
        kinds = {"bool": "BOOLEAN", "int64": "INT64", "float32": "FLOAT", "float64": "DOUBLE"}
        expected = [(own.name, kinds.get(own.dtype, "INT32")) for own in (*SCALARS, *columns)]
        found = [schema.column(i) for i in range(len(schema))]
        return (
            n_rows == len(self.rows) == self._metadata.num_row_groups
            and [(own.path.partition(".")[0], own.physical_type) for own in found] == expected
        )

    def read(self, row: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud, each page checked."""
        group = self._metadata.row_group(row)
        chunks = {name: Chunk.of(group.column(self._columns[name][0])) for name in names}
        # Point columns are contiguous and pair lists follow: one range contains little else.
        begin = min((chunk.begin for chunk in chunks.values()), default=0)
        end = max((chunk.begin + chunk.length for chunk in chunks.values()), default=0)
        content = memoryview(self._system.cat_file(self._path, begin, end))
        arrays = {}
        for name, chunk in chunks.items():
            page = content[chunk.begin - begin : chunk.begin - begin + chunk.length]
            try:
                values = decode_page(page, chunk, self._columns[name][1])
            except (ChecksumError, pa.ArrowException, OSError) as error:
                raise self._damaged(row, name) from error
            arrays[name] = self._read_with_arrow(row, name) if values is None else values
        return arrays

    def close(self) -> None:
        """Does nothing: files are opened for each read."""

    def _read_with_arrow(self, row: int, name: str) -> NDArray[Any]:
        """The same array from pyarrow: for pages of earlier versions and of very short lists."""
        try:
            with self._system.open(self._path, "rb") as handle:
                # No pre-buffering: its threads would use the Python file even while the interpreter exits.
                file = pq.ParquetFile(
                    handle, metadata=self._metadata, pre_buffer=False, page_checksum_verification=True
                )
                lists = file.read_row_group(row, columns=[f"{name}.list.element"], use_threads=False)
            values: NDArray[Any] = lists[name].chunk(0).values.to_numpy(zero_copy_only=False)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(row, name) from error
        chunk = self._metadata.row_group(row).column(self._columns[name][0])
        # An empty list counts as one value, which is null.
        if len(values) != chunk.num_values and len(values) + chunk.num_values != 1:
            raise self._damaged(row, name)
        return values if values.flags.writeable else values.copy()

    def _damaged(self, row: int, name: str) -> InputError:
        event = f"event {self.rows[row]['event_id']}, sector {self.rows[row]['sector']}"
        return damaged(self.where, f"damaged bytes in {event}, column {name}")
