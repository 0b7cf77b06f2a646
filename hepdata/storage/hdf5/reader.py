"""Random access to the clouds of HDF5 files: only the values or chunks of the requested cloud are read.

h5py takes about 20 µs to read a slice, most of what a cloud without pairs costs. In local files, arrays that
are stored contiguously are therefore read from their position in the file; all others are read by h5py.

Every array is checked against the stored checksum; HDF5 checks the index and its own metadata. Damage is
reported as an error that names the file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage.dataset.manifest import ShardRecord
from hepdata.storage.hdf5.checksum import sum_words
from hepdata.storage.location import DatasetLocation
from hepdata.storage.shard_reader import ROW_DTYPE, damaged, missing

# What h5py raises for damaged bytes, depending on where they are.
H5_ERRORS = (OSError, EOFError, KeyError, ValueError, RuntimeError, TypeError, IndexError, AttributeError)


class Hdf5Shard:
    """Random access to the clouds of one HDF5 file; see `hepdata.storage.shard_reader.ShardReader`."""

    def __init__(self, root: DatasetLocation, shard: ShardRecord, columns: Sequence[Column]) -> None:
        self.where = root.name_of(shard.name)
        self._dtypes = {column.name: np.dtype(column.dtype) for column in columns}
        system, path = root.find(shard.name)
        try:
            size = system.size(path)
        except FileNotFoundError as error:
            raise missing(self.where) from error
        if size != shard.bytes:
            raise damaged(self.where, f"{size} bytes instead of {shard.bytes}")
        try:
            self._file = h5py.File(path if root.is_local else system.open(path, "rb"), "r")
            self._read_index(shard.rows)
        except H5_ERRORS as error:
            raise damaged(self.where, f"an unreadable HDF5 file ({error})") from error

    def read(self, row: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The named arrays of one cloud."""
        return {name: self._read_column(row, name) for name in names}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_index(self, n_rows: int) -> None:
        self.rows = np.empty(n_rows, ROW_DTYPE)
        for name in ROW_DTYPE.names or ():
            self.rows[name] = self._file[name][()]
        offsets = ("point_offsets", "pos_offsets", "neg_offsets")
        self._offsets = {name: self._file[name][()].tolist() for name in offsets if name in self._file}
        self._datasets = {name: self._file[name] for name in self._dtypes}
        self._lengths = {name: len(array) for name, array in self._datasets.items()}
        self._positions: dict[str, int] = {}
        if self._file.driver == "sec2" and hasattr(os, "preadv"):
            self._handle = self._file.id.get_vfd_handle()
            for name, array in self._datasets.items():
                position = array.id.get_offset()  # None where it is empty or in chunks
                if position is not None and array.dtype == self._dtypes[name]:
                    self._positions[name] = position
        checksums = self._file["checksums"]
        self._checksums = dict(zip(checksums.attrs["columns"], checksums[()].T, strict=True))

    def _read_column(self, row: int, name: str) -> NDArray[Any]:
        values = np.empty(0, self._dtypes[name])
        try:
            begin, end = self._range(row, name)
            if not 0 <= begin <= end <= self._lengths[name]:
                raise ValueError
            if end > begin:
                values = self._read_values(name, begin, end)
            is_right = (values.dtype, len(values)) == (self._dtypes[name], end - begin)
            is_right = is_right and sum_words(values) == int(self._checksums[name][row])
        except H5_ERRORS:
            is_right = False
        if not is_right:
            event = f"event {self.rows[row]['event_id']}, sector {self.rows[row]['sector']}"
            raise damaged(self.where, f"damaged bytes in {event}, column {name}")
        return values

    def _read_values(self, name: str, begin: int, end: int) -> NDArray[Any]:
        if name in self._positions:
            values = np.empty(end - begin, self._dtypes[name])
            position = self._positions[name] + begin * values.itemsize
            if os.preadv(self._handle, [values.data], position) == values.nbytes:
                return values
        read: NDArray[Any] = self._datasets[name][begin:end]
        return read

    def _range(self, row: int, name: str) -> tuple[int, int]:
        if name in ("pos_idx", "neg_idx"):
            offsets = self._offsets[f"{name[:3]}_offsets"]
            return offsets[row], offsets[row + 1]
        offsets = self._offsets["point_offsets"]
        begin, end = offsets[row], offsets[row + 1]
        if name in ("pos_ptr", "neg_ptr"):
            # Every cloud has one more entry in ptr than it has points.
            return begin + row, end + row + 1
        return begin, end
