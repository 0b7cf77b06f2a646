"""The folder beside the output in which a build grows: `OUT.partial`.

It remembers which build it belongs to, so that only the same command can continue it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hepdata.errors import HeptError, InputError
from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.manifest import MANIFEST_NAME, Manifest
from hepdata.storage.dataset.own_files import MARK, check_own, mark_folder, read_mark, remove_own


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


def open_staging(staging: Path, print_of_build: str | None, *, is_discarded: bool = False) -> None:
    """Make the staging folder, or take up the one that an earlier run of the same build has left.

    Args:
        staging: The folder.
        print_of_build: Which build it belongs to; None makes a folder that is to be signed later.
        is_discarded: Whether an unfinished build of another configuration is removed.

    Raises:
        InputError: The folder belongs to another build, or is not ours.
        JobError: The disk refuses.
    """
    if print_of_build is not None and (staging.exists() or staging.is_symlink()):
        _take_up(staging, print_of_build, is_discarded)
    with disk_errors(staging):
        staging.mkdir(exist_ok=print_of_build is not None)
    mark_folder(staging, print_of_build)


@contextmanager
def staged(staging: Path, print_of_build: str | None = None, *, is_discarded: bool = False) -> Iterator[None]:
    """Hold the staging folder open; after a failure it stays where it has a finished shard to continue from.

    Args:
        staging: The folder.
        print_of_build: Which build it belongs to; None for a folder that must be new and is signed later.
        is_discarded: Whether an unfinished build of another configuration is removed.

    Raises:
        InputError: The folder belongs to another build, or is not ours.
        JobError: The disk refuses.
    """
    open_staging(staging, print_of_build, is_discarded=is_discarded)
    try:
        yield
    except HeptError:
        has_shards = any(path.name != MARK for path in staging.glob("*.json"))
        if staging.exists() and not (has_shards and read_mark(staging)):
            with suppress(HeptError):
                remove_own(staging)
        raise


def _take_up(staging: Path, print_of_build: str, is_discarded: bool) -> None:
    """Leave only what the build can continue from."""
    check_own(staging)
    owner = read_mark(staging)
    if owner == print_of_build:
        with disk_errors(staging):
            for left in staging.glob(".*"):
                left.unlink()
    elif owner is None or is_discarded:
        # Without an owner: killed before it was signed. Nothing in it can be relied on.
        remove_own(staging)
    else:
        raise InputError(
            staging,
            found="an unfinished build from other files or with another configuration",
            expected="the same command that began it",
            remedy="repeat that command, or give `overwrite=True` to begin anew",
        )
