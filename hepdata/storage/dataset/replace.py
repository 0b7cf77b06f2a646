"""Replace a dataset: at every moment the old one or the new one is complete.

OUT (old)  OUT.partial (new)        both are complete
OUT (old)  .OUT.replaced (new)      if killed here, the next run on OUT removes the new one and makes it again
OUT (new)  .OUT.replaced (old)      both names changed places at once; the next run on OUT removes the old one
OUT (new)

Where the file system cannot exchange two names (it can on Linux: ext4, XFS, Btrfs, tmpfs), OUT has to be away
for a moment, and is `.OUT.replaced` then: if killed there, the next run on OUT renames it back.
"""

from __future__ import annotations

from pathlib import Path

from hepdata.errors import InputError, JobError
from hepdata.storage.atomic import disk_errors, exchange, sync_folder
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.dataset.names import MANIFEST_NAME, MARK
from hepdata.storage.dataset.own_files import remove_files


def replaced_of(out: Path) -> Path:
    """Path of the old dataset while the new one is renamed."""
    return out.with_name(f".{out.name}.replaced")


def check_replaceable(out: Path) -> None:
    """Check that `out` does not exist, or contains a dataset and nothing else.

    Raises:
        InputError: It contains something that this program did not write, or an unreadable manifest.
    """
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir() or (any(out.iterdir()) and not (out / MANIFEST_NAME).is_file()):
        raise _not_replaceable(out, "files that are not a dataset")
    strange = sorted({path.name for path in out.iterdir()} - set(_own_files(out)))
    if strange:
        raise _not_replaceable(out, f"{strange[0]!r}, which is not a file of the dataset")


def swap(staging: Path, out: Path) -> None:
    """Replace the dataset `out` by `staging`.

    Raises:
        InputError: `out` holds something that is not part of the dataset.
        JobError: A file cannot be written; `out` is unchanged.
    """
    check_replaceable(out)
    old = replaced_of(out)
    with disk_errors(out):
        staging.rename(old)
        try:
            is_done = exchange(old, out)
        except BaseException:
            old.rename(staging)
            raise
        if not is_done:
            old.rename(staging)
            _swap_by_renames(staging, out)
        sync_folder(out.parent)
    _remove_dataset(old)


def _swap_by_renames(staging: Path, out: Path) -> None:
    old = replaced_of(out)
    out.rename(old)
    try:
        staging.rename(out)
    except BaseException:
        old.rename(out)
        raise


def recover(out: Path) -> None:
    """Finish or undo a swap that was killed. The caller must hold the lock of `out`.

    Raises:
        InputError: `.OUT.replaced` is not a dataset.
        JobError: A file cannot be written.
    """
    old = replaced_of(out)
    if not old.exists():
        return
    if (out / MANIFEST_NAME).is_file():
        _remove_dataset(old)
        return
    check_replaceable(old)
    with disk_errors(out):
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()
        if not out.exists():
            old.rename(out)
            sync_folder(out.parent)


def _own_files(folder: Path) -> list[str]:
    """Names of a dataset's files in the order of removal; the manifest, which lists them, is last."""
    if not any(folder.iterdir()):
        return []
    try:
        manifest = Manifest.read(folder)
    except InputError as error:
        raise _not_replaceable(folder, error.found) from error
    return [*(s.name for shards in manifest.splits.values() for s in shards), MARK, MANIFEST_NAME]


def _remove_dataset(folder: Path) -> None:
    check_replaceable(folder)
    try:
        remove_files(folder, _own_files(folder))
    except OSError as error:
        raise JobError(
            folder,
            found=f"the replaced dataset, which cannot be removed ({error.strerror})",
            expected="to remove it after it was replaced",
            remedy="check the folder and remove it",
        ) from error


def _not_replaceable(out: Path, found: str) -> InputError:
    return InputError(
        out,
        found=found,
        expected="a dataset, and nothing else in its folder, to replace",
        remedy="move it away, or choose another output folder",
    )
