"""The folder beside the output in which a build grows: `OUT.partial`.

It remembers which build it belongs to, so that only the same command can continue it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hepdata.errors import HeptError, InputError
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.storage.manifest import MANIFEST_NAME, Manifest

NOTE = "build.json"
_OURS = (".parquet", ".h5", ".json", ".tmp")


def staging_of(out: Path) -> Path:
    """Where the build of `out` grows."""
    return out.with_name(f"{out.name}.partial")


def fingerprint(content: Mapping[str, object]) -> str:
    """SHA-256 of everything that decides a dataset's bytes."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def finished_build(out: Path, print_of_build: str) -> Manifest | None:
    """The manifest of `out` where it is the finished result of the same build.

    Raises:
        InputError: A dataset of another build is there.
    """
    if not (out / MANIFEST_NAME).is_file():
        return None
    manifest = Manifest.read(out)
    if manifest.configuration.get("fingerprint") != print_of_build:
        raise InputError(
            out,
            found="a dataset that was built from other files or with another configuration",
            expected="a new folder, or the same build again",
            remedy="choose another output folder, or give `overwrite=True` to replace the dataset",
        )
    return manifest


def open_staging(staging: Path, print_of_build: str | None) -> None:
    """Make the staging folder, or take up the one that an earlier run of the same build has left.

    Args:
        staging: The folder.
        print_of_build: Which build it belongs to; None makes a folder that is to be signed later.

    Raises:
        InputError: The folder belongs to another build, or is not ours.
        JobError: The disk refuses.
    """
    if print_of_build is not None and staging.exists():
        _check_owner(staging, print_of_build)
        with disk_errors(staging):
            for left in staging.glob(".*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            if not (staging / NOTE).exists():
                # A build that was killed before it was signed, or while its notes were being removed: nothing
                # in it can be relied on.
                shutil.rmtree(staging)
    with disk_errors(staging):
        staging.mkdir(exist_ok=print_of_build is not None)
    if print_of_build is not None:
        sign_staging(staging, print_of_build)


def sign_staging(staging: Path, print_of_build: str) -> None:
    """Note which build a staging folder belongs to; without that nothing in it is believed later.

    Raises:
        JobError: The disk refuses.
    """
    with write_atomically(staging / NOTE) as file:
        file.write(json.dumps({"fingerprint": print_of_build}).encode())


@contextmanager
def staged(staging: Path, print_of_build: str | None = None) -> Iterator[None]:
    """Hold the staging folder open; after a failure it stays where it has a finished shard to continue from.

    Args:
        staging: The folder.
        print_of_build: Which build it belongs to; None for a folder that must be new and is signed later.

    Raises:
        InputError: The folder belongs to another build, or is not ours.
        JobError: The disk refuses.
    """
    open_staging(staging, print_of_build)
    try:
        yield
    except HeptError:
        notes = {path.name for path in staging.glob("*.json")}
        if NOTE not in notes or notes == {NOTE}:
            shutil.rmtree(staging, ignore_errors=True)
        raise


def discard(out: Path) -> None:
    """Remove a dataset, or an unfinished build of it; never anything else.

    Raises:
        InputError: What is at `out` is neither a dataset nor an empty folder.
        JobError: It cannot be removed.
    """
    staging = staging_of(out)
    with disk_errors(out):
        if out.is_dir() and any(out.iterdir()):
            if not (out / MANIFEST_NAME).is_file():
                raise InputError(
                    out,
                    found="files that are no dataset",
                    expected="a dataset that `overwrite=True` may replace",
                    remedy="choose another output folder",
                )
            shutil.rmtree(out)
        if staging.is_dir():
            _check_ours(staging)
            shutil.rmtree(staging)


def _check_owner(staging: Path, print_of_build: str) -> None:
    _check_ours(staging)
    try:
        owner = json.loads((staging / NOTE).read_text(encoding="utf-8"))["fingerprint"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        owner = None
    if owner != print_of_build:
        raise InputError(
            staging,
            found="an unfinished build from other files or with another configuration",
            expected="the same command that began it",
            remedy="repeat that command, or give `overwrite=True` to begin anew",
        )


def _check_ours(staging: Path) -> None:
    entries = list(staging.iterdir()) if staging.is_dir() else [staging]
    strange = [path.name for path in entries if not path.name.startswith(".") and path.suffix not in _OURS]
    if strange or not staging.is_dir():
        raise InputError(
            staging,
            found=f"{strange[0]!r}, which no build writes",
            expected="a free place for the unfinished dataset",
            remedy="move it away, or choose another output folder",
        )
