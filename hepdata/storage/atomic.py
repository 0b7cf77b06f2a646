"""Files that are complete or absent: written under a temporary name, flushed to the disk, then renamed."""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hepdata.errors import JobError

# Of Linux's renameat2(2): paths are relative to the current folder, and exchange their names.
_HERE, _EXCHANGE = -100, 2


@contextmanager
def write_atomically(
    path: Path, *, sync_content: bool = True, sync_name: bool = True, has_rivals: bool = False
) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` when the block ends without an error.

    Args:
        path: The file.
        sync_content: Flush the bytes to the disk before the rename; without it a power cut can leave an empty
            file.
        sync_name: Flush the folder after the rename; without it a power cut can undo the rename.
        has_rivals: Whether other processes may be writing the same file; the last one to finish wins.

    Raises:
        JobError: The file cannot be written, or the disk is full.
    """
    own = f".{uuid.uuid4().hex}" if has_rivals else ""
    partial = path.with_name(f".{path.name}{own}.tmp")
    with disk_errors(path):
        try:
            with partial.open("w+b") as file:
                yield file
                file.flush()
                if sync_content:
                    os.fsync(file.fileno())
            partial.replace(path)
            if sync_name:
                sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of writing at `path` into a JobError of one line."""
    try:
        yield
    except OSError as error:
        raise _explain(path, error) from error


def exchange(first: Path, second: Path) -> bool:
    """Let two folders exchange their names in one step; False where system or file system cannot do it.

    Raises:
        OSError: It can, but failed; nothing has changed.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(second))


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(path: Path, error: OSError) -> JobError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return JobError(
            path,
            found="no space left on the disk",
            expected="space for the dataset",
            remedy="free some space and run the same command again: it continues where it stopped",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return JobError(
            path,
            found=f"a folder that cannot be written ({error.strerror})",
            expected="a folder in which files may be created",
            remedy="choose another output folder or change its permissions",
        )
    return JobError(
        path,
        found=f"the error {error.strerror or error}",
        expected="to write the file",
        remedy="check the disk and run the same command again",
    )
