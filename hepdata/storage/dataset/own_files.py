"""Which files in a folder this program wrote: only those are ever removed.

A folder in which a dataset grows carries a mark, `build.json`, from its first file to after its last rename.
A folder without the mark belongs to somebody else, whatever its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.storage.dataset.names import MARK, is_own


def mark_folder(folder: Path, fingerprint: str | None = None) -> None:
    """Mark a folder as one in which a dataset grows.

    Args:
        folder: The folder.
        fingerprint: Of the build whose files it holds; None where nothing in it is to be continued.

    Raises:
        JobError: The disk refuses.
    """
    with write_atomically(folder / MARK) as file:
        file.write(json.dumps({"fingerprint": fingerprint}).encode())


def is_marked(folder: Path) -> bool:
    """Whether a dataset grows, or grew, in a folder."""
    return (folder / MARK).is_file()


def read_mark(folder: Path) -> str | None:
    """The fingerprint that `mark_folder` wrote; None where there is none to rely on."""
    try:
        fingerprint = json.loads((folder / MARK).read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return fingerprint if isinstance(fingerprint, str) else None


def check_own(folder: Path) -> None:
    """See that a folder for an unfinished dataset is empty, or was made by this program.

    Raises:
        InputError: It is no folder, or holds what this program did not write; the message names it.
    """
    if not folder.is_dir() or folder.is_symlink():
        raise _foreign(folder, "something that is no folder")
    refuse_foreign(folder)
    names = sorted(path.name for path in folder.iterdir())
    # A kill between the making of the folder and its mark leaves the mark's temporary file.
    if not is_marked(folder) and any(name != f".{MARK}.tmp" for name in names):
        raise _foreign(folder, f"{names[0]!r} in a folder without the mark {MARK!r} of an unfinished build")


def refuse_foreign(folder: Path) -> None:
    """See that every name in a folder is one that this program gives.

    Raises:
        InputError: One is not; the message names it.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() or not is_own(path.name))
    if names:
        raise _foreign(folder, f"{names[0]!r}, which no build writes")


def remove_own(folder: Path) -> None:
    """Remove a folder in which a dataset grew, the mark last: a kill leaves a folder that is still marked.

    Raises:
        InputError: It holds what this program did not write.
        JobError: The disk refuses.
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
        expected="a free place for the unfinished dataset",
        remedy="move it away, or choose another output folder",
    )
