"""Reading HDF5 files of clouds: only the chunks that a cloud's points and pairs lie in.

HDF5 checks every chunk and its own metadata on the way; what it refuses becomes an error that names the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage.manifest import ShardRecord
from hepdata.storage.place import Place
from hepdata.storage.reader import ROW_DTYPE, damaged, missing

# What h5py raises for bytes that make no sense, depending on where they lie.
H5_ERRORS = (OSError, KeyError, ValueError, RuntimeError, TypeError, UnicodeDecodeError)


class Hdf5Shard:
    """Random access to the clouds of one HDF5 file; see `hepdata.storage.reader.ShardReader`."""

    def __init__(self, place: Place, shard: ShardRecord, columns: Sequence[Column]) -> None:
        self.where = place.name_of(shard.name)
        self._columns = {column.name: column for column in columns}
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
            self.rows = self._read_rows(shard.rows)
            self._offsets = {
                name: self._file[name][()]
                for name in ("point_offsets", "pos_offsets", "neg_offsets")
                if name in self._file
            }
            self._datasets = {name: self._file[name] for name in self._columns}
        except H5_ERRORS as error:
            raise damaged(self.where, f"an unreadable HDF5 file ({error})") from error

    def read(self, row: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud."""
        return {name: self._read_column(row, name) for name in names}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read_rows(self, n_rows: int) -> NDArray[Any]:
        rows = np.empty(n_rows, ROW_DTYPE)
        for name in ROW_DTYPE.names or ():
            rows[name] = self._file[name][()]
        return rows

    def _read_column(self, row: int, name: str) -> NDArray[Any]:
        begin, end = self._range(row, name)
        values = np.empty(end - begin, self._columns[name].dtype)
        if not len(values):
            return values
        try:
            self._datasets[name].read_direct(values, np.s_[begin:end])
        except H5_ERRORS as error:
            event = f"event {self.rows[row]['event_id']}, sector {self.rows[row]['sector']}"
            raise damaged(self.where, f"damaged bytes in {event}, column {name} ({error})") from error
        return values

    def _range(self, row: int, name: str) -> tuple[int, int]:
        if name in ("pos_idx", "neg_idx"):
            offsets = self._offsets[f"{name[:3]}_offsets"]
            return int(offsets[row]), int(offsets[row + 1])
        begin, end = (int(limit) for limit in self._offsets["point_offsets"][row : row + 2])
        if name in ("pos_ptr", "neg_ptr"):
            # Every cloud before this one has one limit more than it has points.
            return begin + row, end + row + 1
        return begin, end
