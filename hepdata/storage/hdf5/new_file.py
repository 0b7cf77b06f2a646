"""Create an HDF5 file such that disk errors reach the caller."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import h5py


@contextmanager
def create_hdf5(handle: BinaryIO) -> Iterator[h5py.File]:
    """A new HDF5 file in an open file; raises the first OSError of writing at the end of the block.

    The file uses the layout of HDF5 1.10: earlier ones have no checksums of the metadata.
    """
    with _ErrorKeeper(handle.fileno(), "r+b", closefd=False) as keeper:
        try:
            with h5py.File(keeper, "w", libver=("v110", "v110")) as file:
                yield file
        finally:
            # Errors that HDF5 raises after an OSError are consequences of it.
            if keeper.error is not None:
                raise keeper.error


class _ErrorKeeper(io.FileIO):
    """A file that stores the first error of writing, and ignores everything that is written after it.

    If HDF5 knew of the error, it would fail again whenever it closes an object, and crash at exit.
    """

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all bytes; one system call writes at most 2 GiB."""
        rest = memoryview(content).cast("B")
        n_bytes = len(rest)
        try:
            while self.error is None and len(rest):
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return n_bytes

    def truncate(self, size: int | None = None) -> int:
        """Set the length."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0
