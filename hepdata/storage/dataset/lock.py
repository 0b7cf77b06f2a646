"""One writer per folder: a lock file that the operating system releases when its owner dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.replace import check_replaceable, recover


@contextmanager
def hold_lock(out: Path) -> Iterator[None]:
    """Hold the lock of `out` while the block runs.

    Raises:
        InputError: Another process holds the lock.
        JobError: The folder of `out` cannot be written.
    """
    lock = _lock_of(out)
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                out,
                found="another process that is writing it",
                expected="one process per output",
                remedy="wait for it to end, or choose another output",
            ) from error
    try:
        yield
    finally:
        _remove(lock)


@contextmanager
def lock_output(out: Path, *, is_replaced: bool = False) -> Iterator[None]:
    """Hold the lock of a dataset; first finish or undo a replacement that was killed.

    Raises:
        InputError: Another process holds the lock, or `out` exists and may not be replaced.
        JobError: The folder of `out` cannot be written.
    """
    with hold_lock(out):
        recover(out)
        check_replaceable(out) if is_replaced else refuse_existing(out)
        yield


def sweep_lock(out: Path) -> None:
    """Remove the lock file that is left if a process is killed just after it has finished `out`."""
    lock = _lock_of(out)
    if Path(lock.lock_file).exists():
        with suppress(Timeout, OSError):
            lock.acquire(timeout=0)
            _remove(lock)


def refuse_existing(out: Path) -> None:
    """Refuse to write over an existing file or folder.

    Raises:
        InputError: `out` exists and is not an empty folder.
    """
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        raise InputError(
            out,
            found="something that already exists",
            expected="a new folder for the dataset",
            remedy="choose another name, or remove it first",
        )


def _lock_of(out: Path) -> FileLock:
    out = Path(os.path.abspath(out))  # noqa: PTH100 (a symbolic link keeps its own name)
    return FileLock(out.with_name(f".{out.name}.lock"))


def _remove(lock: FileLock) -> None:
    # Unlinked while still held: filelock checks that the locked file still has its name, so a process that
    # opened the old file starts again with a new one.
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release()
