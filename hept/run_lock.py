"""One writer per run: a lock that the operating system releases when its holder dies.

The lock is `flock`. By their documentation NFS 4, Lustre (mounted with `flock`), GPFS and CephFS pass it on
between hosts; we have tried local file systems only. Where a file system has none, the lock is the existence
of its file. A second file says who holds it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically


@contextmanager
def lock_run(run: Path, *, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the right to write the run folder while the block runs.

    Args:
        run: The folder; it need not exist.
        tell: Takes a line about a lock that a dead process left behind.

    Raises:
        InputError: Another process holds the lock.
        JobError: The folder above `run` cannot be written.
    """
    # Beside the folder, as locks of datasets are; two names of one folder have one lock.
    whole = run.resolve()
    path = whole.with_name(f".{whole.name}.lock")
    owner = whole.with_name(f".{whole.name}.owner")
    lock = FileLock(path)
    with disk_errors(run):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise _refusal(run, path, _read(owner)) from error
    try:
        left = _read(owner)
        if left:
            tell(f"note: the lock that {left} left behind on {run} is taken over: it has ended")
        with write_atomically(owner, sync_content=False, sync_name=False) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        for file_path in (owner, path):
            # Unlinked while still held: filelock refuses a lock on a file that has no name any more.
            with suppress(OSError):
                file_path.unlink()
        lock.release()


def _read(owner: Path) -> str:
    """Who holds the lock; empty where nobody says."""
    with suppress(OSError):
        return "".join(c for c in owner.read_bytes()[:200].decode(errors="replace") if c.isprintable())
    return ""


def _refusal(run: Path, path: Path, holder: str) -> InputError:
    return InputError(
        run,
        found=f"another training at work on it ({holder or 'which does not say who it is'})",
        expected="one writer of a run",
        remedy=f"wait for it to end, or choose another `out`; if that process is gone, remove {path}",
    )
