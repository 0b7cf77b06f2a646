"""A file for HDF5 to write to: its errors are kept for us, for HDF5 itself does not survive them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import h5py


@contextmanager
def open_guarded(handle: BinaryIO) -> Iterator[h5py.File]:
    """A new HDF5 file in an open file; OSError at the end of the block where the disk refused.

    The layout is that of HDF5 1.10, which has checksums on its structures; earlier ones have none.
    """
    guard = GuardedFile(handle.fileno())
    try:
        with h5py.File(guard, "w", libver=("v110", "v110")) as file:
            yield file
    except Exception:
        # What HDF5 says after the disk's refusal is about its consequences.
        guard.check()
        raise
    guard.check()


class GuardedFile(io.RawIOBase):
    """Writes to a file until that fails; from then on it swallows what is written.

    A full disk makes the HDF5 library fail again whenever it closes something, down to a crash at exit. So it
    is left in the belief that all is well, and `check` raises what the operating system said.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise the first error there was."""
        if self._error is not None:
            raise self._error

    def write(self, content: Any) -> int:
        """Write, or swallow."""
        rest = memoryview(content).cast("B")
        n_bytes = len(rest)
        try:
            while self._error is None and len(rest):
                n_written = os.pwrite(self._descriptor, rest, self._position + n_bytes - len(rest))
                rest = rest[n_written:]
        except OSError as error:
            self._error = error
        self._position += n_bytes
        return n_bytes

    def truncate(self, size: int | None = None) -> int:
        """Set the length, or swallow."""
        length = self._position if size is None else size
        try:
            if self._error is None:
                os.ftruncate(self._descriptor, length)
        except OSError as error:
            self._error = error
        return length

    def readinto(self, buffer: Any) -> int:
        """Read back what was written."""
        content = os.pread(self._descriptor, len(buffer), self._position)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: os.fstat(self._descriptor).st_size}
        self._position = base[whence] + offset
        return self._position

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._position

    def readable(self) -> bool:
        """HDF5 reads its own structures back."""
        return True

    def writable(self) -> bool:
        """It is there to be written."""
        return True

    def seekable(self) -> bool:
        """HDF5 writes here and there."""
        return True
