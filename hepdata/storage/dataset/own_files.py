"""Which files in a folder this program wrote: only those are ever removed.

The folder of an unfinished dataset contains a mark, `build.json`, until after the final rename. A folder
without the mark is never removed, whatever its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.storage.dataset.names import MARK, is_own


def mark_folder(folder: Path, fingerprint: str | None = None) -> None:
    """Mark a folder as that of an unfinished dataset.

    Args:
        folder: The folder.
        fingerprint: Of the build that can be continued in it; None for work that is not resumed.

    Raises:
        JobError: A file cannot be written.
    """
    with write_atomically(folder / MARK) as file:
        file.write(json.dumps({"fingerprint": fingerprint}).encode())


def is_marked(folder: Path) -> bool:
    """Whether a folder has the mark."""
    return (folder / MARK).is_file()


def read_mark(folder: Path) -> str | None:
    """The fingerprint that `mark_folder` wrote; None if it is missing or unreadable."""
    try:
        fingerprint = json.loads((folder / MARK).read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return fingerprint if isinstance(fingerprint, str) else None


def check_own(folder: Path) -> None:
    """Check that the folder of an unfinished dataset is empty, or was made by this program.

    Raises:
        InputError: It is not a folder, or holds a file that this program did not write; the message names it.
    """
    if not folder.is_dir() or folder.is_symlink():
        raise _foreign(folder, "something that is not a folder")
    refuse_foreign(folder)
    names = sorted(path.name for path in folder.iterdir())
    # A build that is killed while it writes the mark leaves the temporary file of the mark.
    if not is_marked(folder) and any(name != f".{MARK}.tmp" for name in names):
        raise _foreign(folder, f"{names[0]!r} in a folder without the mark {MARK!r} of an unfinished build")


def refuse_foreign(folder: Path) -> None:
    """Check that all files in a folder have names that this program gives.

    Raises:
        InputError: One does not; the message names it.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() or not is_own(path.name))
    if names:
        raise _foreign(folder, f"{names[0]!r}, which no build writes")


def remove_own(folder: Path) -> None:
    """Remove the folder of an unfinished dataset; the mark goes last, in case of a kill.

    Raises:
        InputError: It holds a file that this program did not write.
        JobError: A file cannot be written.
    """
    check_own(folder)
    with disk_errors(folder):
        remove_files(folder, sorted((path.name for path in folder.iterdir()), key=lambda name: name == MARK))


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove the named files, in order, then the folder; OSError where it holds anything else."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _foreign(folder: Path, found: str) -> InputError:
    return InputError(
        folder,
        found=found,
        expected="a free path for the unfinished dataset",
        remedy="move it away, or choose another output folder",
    )
