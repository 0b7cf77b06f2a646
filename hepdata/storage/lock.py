"""One builder per folder: a lock that the operating system releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors


@contextmanager
def lock_output(out: Path) -> Iterator[None]:
    """Hold the right to make `out` while the block runs.

    Raises:
        InputError: Another process holds it, or `out` exists.
        JobError: The folder of `out` cannot be written.
    """
    out = Path(os.path.abspath(out))  # noqa: PTH100 (a symbolic link keeps its own name)
    path = out.with_name(f".{out.name}.lock")
    with disk_errors(out):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise BlockingIOError("the file that was opened has been removed, and there is a new one")
        except OSError as error:
            raise _refusal(out, descriptor) from error
        try:
            refuse_existing(out)
            with disk_errors(out):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
        finally:
            # Removed while still held: whoever opens the path next makes a new file and locks that one.
            with suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)


def sweep_lock(out: Path) -> None:
    """Remove the lock that a process left behind which was killed just after `out` was finished."""
    path = out.with_name(f".{out.name}.lock")
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def refuse_existing(out: Path) -> None:
    """Never write over something.

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


def _refusal(out: Path, descriptor: int) -> InputError:
    holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return InputError(
        out,
        found=f"another process at work on it{f' (process {holder})' if holder else ''}",
        expected="one process per dataset folder",
        remedy="wait for it to end, or choose another output folder",
    )
