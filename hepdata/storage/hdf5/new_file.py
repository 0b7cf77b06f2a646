"""A new HDF5 file whose disk errors reach the caller."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import h5py


@contextmanager
def create_hdf5(handle: BinaryIO) -> Iterator[h5py.File]:
    """A new HDF5 file in an open file; OSError at the end of the block where the disk refused.

    The layout is that of HDF5 1.10, which has checksums on its structures; earlier ones have none.
    """
    with _ErrorKeeper(handle.fileno(), "r+b", closefd=False) as keeper:
        try:
            with h5py.File(keeper, "w", libver=("v110", "v110")) as file:
                yield file
        finally:
            # What HDF5 says after the disk's refusal is about its consequences.
            if keeper.error is not None:
                raise keeper.error


class _ErrorKeeper(io.FileIO):
    """A file that keeps the first error of writing for later, and then ignores what is written.

    A full disk makes the HDF5 library fail again whenever it closes something, down to a crash at exit. So it
    is told that all is well.
    """

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all of it; one call of the system writes at most 2 GiB."""
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
