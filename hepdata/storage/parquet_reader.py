"""Reading Parquet shards: one cloud's bytes, checked, as arrays.

The footer is read and checked once; after that, a cloud costs one read of its columns' range.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage.byte_source import open_bytes
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.pages import INDEX_DTYPE, Entry, decode_page, read_index
from hepdata.storage.place import Place
from hepdata.storage.reader import ROW_DTYPE, damaged, missing
from hepdata.threads import LARGE, small_work, submit

ROWS_KEY = b"hept.rows"
# Places in an entry of the index
RAW = (INDEX_DTYPE.names or ()).index("raw")
CHECKSUM = (INDEX_DTYPE.names or ()).index("checksum")


class ParquetShard:
    """Random access to the clouds of one Parquet file; see `hepdata.storage.reader.ShardReader`."""

    def __init__(self, place: Place, shard: ShardRecord, columns: Sequence[Column]) -> None:
        self.where = place.name_of(shard.name)
        try:
            self._file = open_bytes(place, shard.name)
        except FileNotFoundError as error:
            raise missing(self.where) from error
        if self._file.size != shard.bytes:
            raise damaged(self.where, f"{self._file.size} bytes instead of {shard.bytes}")
        footer = self._file.read(shard.bytes - shard.footer_bytes, shard.footer_bytes)
        if zlib.crc32(footer) != shard.footer_crc:
            raise damaged(self.where, "a footer that does not match its checksum")
        notes = pq.read_metadata(pa.BufferReader(footer)).metadata
        self.rows = np.frombuffer(base64.b64decode(notes[ROWS_KEY]), ROW_DTYPE)
        self._index, self._checksum = read_index(notes, columns)
        self._columns = {column.name: (place_in_row, column) for place_in_row, column in enumerate(columns)}

    def read(self, row: int, names: Sequence[str], beside: Executor | None = None) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud, each page checked."""
        pages = self._fetch(row, names)
        large = [name for name in names if pages[name][1][RAW] >= LARGE]
        tasks = {name: submit(beside, self._decode, name, *pages[name]) for name in large} if beside else {}
        for name in large:
            self._check(row, name, *pages[name])
        arrays = {name: self._decode(name, *pages[name]) for name in large if name not in tasks}
        with small_work():
            for name in names:
                if name not in large:
                    self._check(row, name, *pages[name])
                    arrays[name] = self._decode(name, *pages[name])
        arrays |= {name: task.result() for name, task in tasks.items()}
        return {name: arrays[name] for name in names}

    def _fetch(self, row: int, names: Sequence[str]) -> dict[str, tuple[memoryview, Entry]]:
        """The stored bytes of every named page, and what the index says of it."""
        wanted = sorted(self._columns[name][0] for name in names)
        base = row * len(self._columns)
        found = {}
        for first, last in _runs(wanted):
            begin = self._index[base + first][0]
            end = self._index[base + last][0] + self._index[base + last][1]
            content = memoryview(self._file.read(begin, end - begin))
            for position in range(first, last + 1):
                entry = self._index[base + position]
                page = content[entry[0] - begin : entry[0] - begin + entry[1]]
                found[position] = (page, entry)
        return {name: found[self._columns[name][0]] for name in names}

    def _check(self, row: int, name: str, page: memoryview, entry: Entry) -> None:
        if self._checksum(page) != entry[CHECKSUM]:
            event = f"event {self.rows[row]['event_id']}, sector {self.rows[row]['sector']}"
            raise damaged(self.where, f"damaged bytes in {event}, column {name}")

    def _decode(self, name: str, page: memoryview, entry: Entry) -> NDArray[Any]:
        return decode_page(page, entry, self._columns[name][1])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _runs(positions: list[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring positions as (first, last), so that they are read at once."""
    start = 0
    for i in range(1, len(positions) + 1):
        if i == len(positions) or positions[i] != positions[i - 1] + 1:
            yield positions[start], positions[i - 1]
            start = i
