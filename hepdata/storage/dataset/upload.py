"""Datasets at fsspec URLs: made in a local folder, then copied there, the manifest last."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hepdata.errors import InputError, JobError
from hepdata.progress import Progress
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.location import Place, open_place

Location = str | os.PathLike[str]


def check_output(out: Location, *, overwrite: bool = False) -> None:
    """Find out whether a dataset may be made at `out`, before work is done for it; folders are checked later.

    Raises:
        InputError: A URL that cannot be used or has a dataset already, or `overwrite` with a URL.
    """
    place = open_place(out)
    if place.is_local:
        return
    if overwrite:
        raise InputError(
            place.location,
            found="`overwrite=True` with a URL",
            expected="a local folder to replace, or a URL without a dataset",
            remedy="remove the dataset there first, or choose another URL",
        )
    try:
        system, path = place.find(MANIFEST_NAME)
        has_dataset = system.exists(path)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(
            place.location,
            found=f"an address that cannot be used ({error})",
            expected="a folder, or a URL that fsspec can write to",
            remedy="check address and permissions; a URL may need a package of its own for fsspec",
        ) from error
    if has_dataset:
        raise InputError(
            place.location,
            found="a dataset that already exists",
            expected="a URL for a new one",
            remedy="choose another URL, or remove the dataset there first",
        )


@contextmanager
def local_folder(out: Location, progress: Progress, *, build: str = "") -> Iterator[Path]:
    """The folder in which a dataset is made: `out`; where that is a URL, one whose files go there at the end.

    A URL without a manifest is no dataset: killed at any moment, nothing half is left to be read.

    Args:
        out: Folder or fsspec URL, as `check_output` accepts it.
        progress: Told of every file that is copied.
        build: Fingerprint of a build, which goes on with what an earlier attempt at it has left; without it,
            the folder is new.

    Raises:
        InputError: The URL cannot be used, or has a dataset already.
        JobError: The copy failed.
    """
    check_output(out)
    place = open_place(out)
    if place.is_local:
        yield _follow(Path(place.location))
        return
    # The same for every attempt. The variable TMPDIR chooses the disk.
    name = hashlib.sha256(f"{place.location} {build}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"hept-{name}"
    if not build:
        shutil.rmtree(folder, ignore_errors=True)
    yield folder
    _upload(folder, place, progress)
    shutil.rmtree(folder)


def _follow(out: Path) -> Path:
    """The folder that a link stands for: its dataset grows beside it, on the same disk."""
    # A link that leads nowhere keeps its own name, and is refused as something that exists.
    return out.resolve() if out.is_dir() else Path(os.path.abspath(out))  # noqa: PTH100


def _upload(folder: Path, place: Place, progress: Progress) -> None:
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST_NAME)
    progress.start("copying", len(names) + 1, "file")
    try:
        for name in (*names, MANIFEST_NAME):
            _put(folder / name, place)
            progress.advance()
    finally:
        progress.finish()


def _put(path: Path, place: Place) -> None:
    try:
        system: Any
        system, target = place.find(path.name)
        system.makedirs(target.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), target)
    except Exception as error:  # file systems of fsspec raise whatever their clients do
        raise JobError(
            place.name_of(path.name),
            found=f"the error {type(error).__name__}: {error}",
            expected="to write the file",
            remedy="mend the access to the URL and run the same command again",
        ) from error
