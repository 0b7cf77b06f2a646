"""Datasets at fsspec URLs: written to a local folder, then uploaded, the manifest last."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hepdata.errors import InputError, JobError
from hepdata.progress import Progress, counting
from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.location import DatasetLocation, open_location

Location = str | os.PathLike[str]


def check_output(out: Location, *, overwrite: bool = False) -> None:
    """Check before a build whether a dataset may be written to the URL `out`; folders are checked later.

    Raises:
        InputError: A URL that is incomplete or unusable or has a dataset, or `overwrite` with a URL.
    """
    root = open_location(out)
    if root.is_local:
        _refuse_half_url(root.location)
        return
    if overwrite:
        raise InputError(
            root.location,
            found="`overwrite=True` with a URL",
            expected="a local folder to replace, or a URL without a dataset",
            remedy="remove the dataset there first, or choose another URL",
        )
    try:
        system, path = root.find(MANIFEST_NAME)
        has_dataset = system.exists(path)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(
            root.location,
            found=f"a location that cannot be used ({error})",
            expected="a folder, or a URL that fsspec can write to",
            remedy="check path and permissions; some kinds of URLs need another package for fsspec",
        ) from error
    if has_dataset:
        raise InputError(
            root.location,
            found="a dataset that already exists",
            expected="a URL for a new one",
            remedy="choose another URL, or remove the dataset there first",
        )


def _refuse_half_url(location: str) -> None:
    """A folder may be named `s3:`, but whoever writes `s3:/bucket/out` means a URL."""
    from fsspec import available_protocols

    scheme, colon, rest = location.partition(":")
    if colon and scheme in available_protocols():
        raise InputError(
            location,
            found=f"{scheme}: without two slashes",
            expected=f"a folder, or a URL such as {scheme}://bucket/out",
            remedy=f"write {scheme}://{rest.lstrip('/')}, or ./{location} for a folder of this name",
        )


@contextmanager
def local_folder(out: Location, progress: Progress, *, build: str = "") -> Iterator[Path]:
    """The local folder in which a dataset is made: `out`, or for a URL a folder that is uploaded at the end.

    A URL without a manifest is no dataset: an upload that is killed never leaves a dataset that looks
    complete.

    Args:
        out: Folder or fsspec URL, as `check_output` accepts it.
        progress: Told of every file that is copied.
        build: Fingerprint of a build, which continues an earlier attempt; without it the folder is new.

    Raises:
        InputError: The URL cannot be used, or has a dataset already.
        JobError: The copy failed.
    """
    check_output(out)
    root = open_location(out)
    if root.is_local:
        yield _follow(Path(root.location))
        return
    # The same name for every attempt.
    name = hashlib.sha256(f"{root.location} {build}".encode()).hexdigest()[:16]
    folder = _own_folder() / name
    if not build:
        shutil.rmtree(folder, ignore_errors=True)
    yield folder
    _upload(folder, root, progress)
    shutil.rmtree(folder)
    with suppress(OSError):
        # Other datasets may be on their way.
        folder.parent.rmdir()


def _own_folder() -> Path:
    """A folder for temporary files that nobody else can write: its name can be guessed."""
    user = getattr(os, "getuid", int)()
    # The environment variable TMPDIR chooses the disk.
    folder = Path(tempfile.gettempdir()) / f"hept-{user}"
    with disk_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o022:
        raise InputError(
            folder,
            found="a folder or link that somebody else has made or may write",
            expected="a folder of your own for temporary files",
            remedy="set the environment variable TMPDIR to a folder of yours",
        )
    return folder


def _follow(out: Path) -> Path:
    """Resolve symbolic links: the staging folder must be on the same disk as the dataset."""
    # A broken link keeps its own name, and is refused later because it exists.
    return out.resolve() if out.is_dir() else Path(os.path.abspath(out))  # noqa: PTH100


def _upload(folder: Path, root: DatasetLocation, progress: Progress) -> None:
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST_NAME)
    with counting(progress, "copying", len(names) + 1, "file"):
        for name in (*names, MANIFEST_NAME):
            _put(folder / name, root)
            progress.advance()


def _put(path: Path, root: DatasetLocation) -> None:
    try:
        system: Any
        system, target = root.find(path.name)
        system.makedirs(target.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), target)
    except Exception as error:  # fsspec passes on all exceptions of its clients
        raise JobError(
            root.name_of(path.name),
            found=f"the error {type(error).__name__}: {error}",
            expected="to write the file",
            remedy="repair the access to the URL and run the same command again",
        ) from error
