"""Byte ranges of one file, local or remote, from any thread."""

from __future__ import annotations

import os
import weakref
from typing import Any

from hepdata.storage.place import Place


class LocalFile:
    """A file of the operating system, read with `pread`: threads and forked processes share no position."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._descriptor).st_size
        # Runs once: by hand, or when the last reader is gone. Not when the interpreter ends: threads may be
        # reading still, and the system closes the file after them.
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._close.atexit = False

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; fewer where the file ends before."""
        content = os.pread(self._descriptor, length, offset)
        while 0 < len(content) < length:
            # One call reads at most 2 GiB.
            more = os.pread(self._descriptor, length - len(content), offset + len(content))
            if not more:
                break
            content += more
        return content

    def read_into(self, offset: int, content: memoryview) -> None:
        """Fill memory from the bytes at `offset`; EOFError where the file has too few of them."""
        n_read = 0
        while n_read < len(content):
            n_new = os.preadv(self._descriptor, [content[n_read:]], offset + n_read)
            if not n_new:
                raise EOFError(f"{len(content)} bytes at {offset}")
            n_read += n_new

    def close(self) -> None:
        """Let go of the descriptor."""
        self._close()


class RemoteFile:
    """A file behind an fsspec URL."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._system: Any
        self._system, self._path = url_to_fs(url)
        self.size = int(self._system.size(self._path))

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`."""
        content: bytes = self._system.cat_file(self._path, start=offset, end=offset + length)
        return content

    def close(self) -> None:
        """Nothing is held open."""


def open_bytes(place: Place, name: str) -> LocalFile | RemoteFile:
    """The bytes of one file of a dataset; FileNotFoundError where there is none."""
    return LocalFile(place.name_of(name)) if place.is_local else RemoteFile(place.name_of(name))
