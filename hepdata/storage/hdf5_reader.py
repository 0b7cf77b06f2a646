"""Reading HDF5 files of clouds: only the bytes, or chunks, that a cloud's points and pairs lie in.

Uncompressed arrays are read straight from the file; HDF5 only says where they are. Every array is checked
against the stored checksum; the index and HDF5's own structures by HDF5. What is wrong becomes an error that
names the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage import reused_memory
from hepdata.storage.byte_source import LocalFile
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.place import Place
from hepdata.storage.reader import ROW_DTYPE, damaged, missing
from hepdata.threads import LARGE, small_work, submit

# What h5py raises for bytes that make no sense, depending on where they lie.
H5_ERRORS = (OSError, EOFError, KeyError, ValueError, RuntimeError, TypeError, UnicodeDecodeError)
# Bytes; fits into the cache of one core.
SUMMED_AT_ONCE = 2**19


class Hdf5Shard:
    """Random access to the clouds of one HDF5 file; see `hepdata.storage.reader.ShardReader`."""

    def __init__(self, place: Place, shard: ShardRecord, columns: Sequence[Column]) -> None:
        self.where = place.name_of(shard.name)
        self._columns = {column.name: column for column in columns}
        self._dtypes = {column.name: np.dtype(column.dtype) for column in columns}
        try:
            handle = place.open(shard.name)
        except FileNotFoundError as error:
            raise missing(self.where) from error
        size = handle.seek(0, 2)
        if size != shard.bytes:
            raise damaged(self.where, f"{size} bytes instead of {shard.bytes}")
        if place.is_local:
            handle.close()
        try:
            self._file = h5py.File(self.where if place.is_local else handle, "r")
            self._bytes = LocalFile(self.where) if place.is_local else None
            self._read_index(shard.rows)
        except H5_ERRORS as error:
            raise damaged(self.where, f"an unreadable HDF5 file ({error})") from error

    def read(self, row: int, names: Sequence[str], beside: Executor | None = None) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud."""
        arrays = {name: self._read_column(row, name, beside) for name in names if self._is_large(row, name)}
        with small_work():
            arrays |= {name: self._read_column(row, name) for name in names if name not in arrays}
        return {name: arrays[name] for name in names}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        if self._bytes is not None:
            self._bytes.close()

    def _read_index(self, n_rows: int) -> None:
        self.rows = np.empty(n_rows, ROW_DTYPE)
        for name in ROW_DTYPE.names or ():
            self.rows[name] = self._file[name][()]
        offsets = ("point_offsets", "pos_offsets", "neg_offsets")
        # Plain numbers: numpy's cost more to look up than a small array to read.
        self._offsets = {name: self._file[name][()].tolist() for name in offsets if name in self._file}
        self._datasets = {name: self._file[name] for name in self._columns}
        checksums = self._file["checksums"]
        self._checksums = dict(zip(checksums.attrs["columns"], checksums[()].T, strict=True))
        # None where an array is compressed, empty, or not in the machine's byte order.
        self._places = {name: _place_of(self._datasets[name], own) for name, own in self._columns.items()}

    def _is_large(self, row: int, name: str) -> bool:
        begin, end = self._range(row, name)
        return (end - begin) * self._dtypes[name].itemsize >= LARGE

    def _read_column(self, row: int, name: str, beside: Executor | None = None) -> NDArray[Any]:
        begin, end = self._range(row, name)
        dtype = self._dtypes[name]
        n_bytes = (end - begin) * dtype.itemsize
        # Whole words, the last one filled up with zeros: what the checksum is the sum of.
        words = reused_memory.empty(-(-n_bytes // 8), "<u8")
        words[-1:] = 0
        values = words.view(dtype)[: end - begin]
        if not n_bytes:
            return values
        try:
            is_right = self._fill(words, values, name, begin, beside) == int(self._checksums[name][row])
        except H5_ERRORS:
            is_right = False
        if not is_right:
            event = f"event {self.rows[row]['event_id']}, sector {self.rows[row]['sector']}"
            raise damaged(self.where, f"damaged bytes in {event}, column {name}")
        return values

    def _fill(
        self, words: NDArray[np.uint64], values: NDArray[Any], name: str, begin: int, beside: Executor | None
    ) -> int:
        """Read the values of a column from `begin` on, and sum up the words that they lie in."""
        start = self._places[name]
        if self._bytes is None or start is None:
            self._datasets[name].read_direct(values, np.s_[begin : begin + len(values)])
            return int(np.add.reduce(words))
        offset = start + begin * values.itemsize
        if beside is None:
            return _read_and_sum(self._bytes, offset, words, values.nbytes)
        half = len(words) // 2
        task = submit(beside, _read_and_sum, self._bytes, offset, words[:half], 8 * half)
        rest = _read_and_sum(self._bytes, offset + 8 * half, words[half:], values.nbytes - 8 * half)
        return (task.result() + rest) % 2**64

    def _range(self, row: int, name: str) -> tuple[int, int]:
        if name in ("pos_idx", "neg_idx"):
            offsets = self._offsets[f"{name[:3]}_offsets"]
            return offsets[row], offsets[row + 1]
        offsets = self._offsets["point_offsets"]
        begin, end = offsets[row], offsets[row + 1]
        if name in ("pos_ptr", "neg_ptr"):
            # Every cloud before this one has one limit more than it has points.
            return begin + row, end + row + 1
        return begin, end


def _read_and_sum(file: LocalFile, offset: int, words: NDArray[np.uint64], n_bytes: int) -> int:
    """Fill words from a file, part by part: each is summed up while it is still in the cache."""
    content = words.view(np.uint8).data[:n_bytes]
    total = 0
    for first in range(0, n_bytes, SUMMED_AT_ONCE):
        file.read_into(offset + first, content[first : first + SUMMED_AT_ONCE])
        total += int(np.add.reduce(words[first // 8 : (first + SUMMED_AT_ONCE) // 8]))
    return total % 2**64


def _place_of(dataset: h5py.Dataset, column: Column) -> int | None:
    if dataset.chunks is not None or dataset.dtype != np.dtype(column.dtype):
        return None
    offset: int | None = dataset.id.get_offset()
    return offset
