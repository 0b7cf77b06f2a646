"""The staging folder of a build, `OUT.partial`, next to the output.

It stores the fingerprint of the build, so that only the same command can continue it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hepdata.errors import HeptError, InputError
from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.dataset.names import MANIFEST_NAME, MARK
from hepdata.storage.dataset.own_files import check_own, mark_folder, read_mark, remove_own


def staging_of(out: Path) -> Path:
    """The staging folder of `out`."""
    return out.with_name(f"{out.name}.partial")


def finished_build(out: Path, fingerprint: str) -> Manifest | None:
    """The manifest of `out` if it is the finished result of the same build.

    Raises:
        InputError: `out` is a dataset of another build.
    """
    if not (out / MANIFEST_NAME).is_file():
        return None
    manifest = Manifest.read(out)
    if manifest.configuration.get("fingerprint") != fingerprint:
        raise InputError(
            out,
            found="a dataset that was built from other files or with another configuration",
            expected="a new folder, or the same build again",
            remedy="choose another output folder, or give `overwrite=True` to replace the dataset",
        )
    return manifest


@contextmanager
def staged(staging: Path, fingerprint: str, *, is_discarded: bool = False) -> Iterator[None]:
    """Make the staging folder, or continue with the one that an earlier run of the same build has left.

    After a failure it is kept if it holds a finished shard to continue from.

    Args:
        staging: The folder.
        fingerprint: Of the build that it belongs to.
        is_discarded: Whether an unfinished build of another configuration is removed.

    Raises:
        InputError: The folder belongs to another build, or was not made by a build.
        JobError: A file cannot be written.
    """
    if staging.exists() or staging.is_symlink():
        _clean(staging, fingerprint, is_discarded)
    with disk_errors(staging):
        staging.mkdir(exist_ok=True)
    mark_folder(staging, fingerprint)
    try:
        yield
    except HeptError:
        if staging.exists() and all(path.name == MARK for path in staging.glob("*.json")):
            with suppress(HeptError):
                remove_own(staging)
        raise


def _clean(staging: Path, fingerprint: str, is_discarded: bool) -> None:
    """Remove what the build cannot continue from."""
    check_own(staging)
    owner = read_mark(staging)
    if owner == fingerprint:
        with disk_errors(staging):
            for left in staging.glob(".*"):
                left.unlink()
    elif owner is None or is_discarded:
        # Without an owner: killed before the folder was marked.
        remove_own(staging)
    else:
        raise InputError(
            staging,
            found="an unfinished build from other files or with another configuration",
            expected="the same command that began it",
            remedy="repeat that command, or give `overwrite=True` to begin anew",
        )
