"""One writer per run: a lock that the operating system releases when its holder dies.

The lock is `flock`. By their documentation NFS 4, Lustre (mounted with `flock`), GPFS and CephFS support it
across hosts; only local file systems were tried. On a file system without it, the lock is the existence of
its file. A second file names the holder.
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
    """Hold the lock of the run folder within the block.

    Args:
        run: The folder; it need not exist.
        tell: Gets a message about a lock that a dead process left behind.

    Raises:
        InputError: Another process holds the lock.
        JobError: The folder above `run` cannot be written.
    """
    # Next to the folder, like the locks of datasets; resolved, so that two paths of one folder share a lock.
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
            tell(f"note: taking over the lock that {left} left behind on {run}: that process has ended")
        with write_atomically(owner, sync_content=False, sync_name=False) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        for file_path in (owner, path):
            # Unlink while the lock is held: filelock does not acquire a lock on an unlinked file.
            with suppress(OSError):
                file_path.unlink()
        lock.release()


def _read(owner: Path) -> str:
    """The holder of the lock; empty if unknown."""
    with suppress(OSError):
        return "".join(c for c in owner.read_bytes()[:200].decode(errors="replace") if c.isprintable())
    return ""


def _refusal(run: Path, path: Path, holder: str) -> InputError:
    return InputError(
        run,
        found=f"another training in progress ({holder or 'unknown process'})",
        expected="one writer per run",
        remedy=f"wait for it to end, or choose another `out`; if that process has died, remove {path}",
    )
