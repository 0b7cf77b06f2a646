"""The last step of making a dataset: a staging folder of shards becomes the dataset, atomically."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hepdata.errors import HeptError, InputError
from hepdata.schema import Schema
from hepdata.storage.atomic import disk_errors, sync_folder
from hepdata.storage.dataset.lock import refuse_existing
from hepdata.storage.dataset.manifest import (
    FileFormat,
    Manifest,
    ShardRecord,
    SkippedEvent,
    SourceFile,
    make_manifest,
)
from hepdata.storage.dataset.names import MANIFEST_NAME, MARK
from hepdata.storage.dataset.own_files import mark_folder, refuse_foreign, remove_own
from hepdata.storage.dataset.replace import check_replaceable, swap
from hepdata.storage.hdf5.writer import split_to_hdf5
from hepdata.storage.location import open_location
from hepdata.storage.shard_reader import read_shards


def finish_dataset(
    staging: Path,
    out: Path,
    *,
    schema: Schema,
    splits: Mapping[str, Sequence[ShardRecord]],
    configuration: Mapping[str, object],
    sources: Sequence[SourceFile] = (),
    skipped: Sequence[SkippedEvent] = (),
    file_format: FileFormat = "parquet",
    is_replaced: bool = False,
) -> Manifest:
    """Write the manifest into `staging` and rename the folder to `out`.

    Args:
        staging: Folder with every Parquet shard named in `splits`, on the same disk as `out`. Other files in
            it (notes of a resumable build) are removed.
        out: The dataset's folder, which must not exist or be empty, unless `is_replaced`.
        schema: Columns of every cloud.
        splits: Records of the shards, in order, for every split.
        configuration: The full configuration of the build.
        sources: Raw files.
        skipped: Events left out, with their reasons.
        file_format: "hdf5" turns the shards of each split into one HDF5 file.
        is_replaced: Whether an existing dataset at `out` is replaced.

    Raises:
        InputError: A shard is missing, only some shards have pairs, or `out` exists.
        JobError: A file cannot be written.
    """
    _check_shards(staging, splits)
    check_replaceable(out) if is_replaced else refuse_existing(out)
    if file_format == "hdf5":
        splits = _as_hdf5(staging, splits, schema)
    manifest = make_manifest(
        schema=schema,
        file_format=file_format,
        splits=splits,
        configuration=configuration,
        sources=sources,
        skipped=skipped,
    )
    manifest.write(staging)
    move_into_place(staging, out, manifest, is_replaced=is_replaced)
    return manifest


def move_into_place(staging: Path, out: Path, manifest: Manifest, *, is_replaced: bool = False) -> None:
    """Give a complete staging folder the name `out`.

    Raises:
        InputError: One of the folders holds something that this program did not write.
        JobError: A file cannot be written.
    """
    wanted = {MARK, MANIFEST_NAME} | {shard.name for shards in manifest.splits.values() for shard in shards}
    refuse_foreign(staging)
    with disk_errors(out):
        for path in staging.iterdir():
            if path.name not in wanted:
                path.unlink()
        sync_folder(staging)
        if is_replaced and out.is_dir() and any(out.iterdir()):
            swap(staging, out)
        else:
            if out.is_dir():
                out.rmdir()
            staging.rename(out)
            sync_folder(out.parent)
        sweep_mark(out)


def sweep_mark(out: Path) -> None:
    """Remove the mark of an unfinished dataset, which a killed build may have left in a finished one."""
    with suppress(OSError):
        (out / MARK).unlink(missing_ok=True)


@contextmanager
def fresh_staging(out: Path) -> Iterator[Path]:
    """An empty folder next to `out` for work that is not resumed; it is always removed afterwards.

    Raises:
        InputError: The folder exists and holds something that this program did not write.
        JobError: A file cannot be written.
    """
    staging = out.with_name(f".{out.name}.new")
    if staging.exists() or staging.is_symlink():
        remove_own(staging)
    with disk_errors(out):
        staging.mkdir(parents=True)
    mark_folder(staging)
    try:
        yield staging
    finally:
        with suppress(HeptError):
            if staging.exists():
                remove_own(staging)


def _as_hdf5(
    staging: Path, splits: Mapping[str, Sequence[ShardRecord]], schema: Schema
) -> dict[str, list[ShardRecord]]:
    parquet = make_manifest(schema=schema, file_format="parquet", splits=splits, configuration={})
    root = open_location(staging)
    return {
        split: split_to_hdf5(staging, split, read_shards(root, parquet, shards), schema, shards)
        for split, shards in splits.items()
    }


def _check_shards(staging: Path, splits: Mapping[str, Sequence[ShardRecord]]) -> None:
    records = [shard for shards in splits.values() for shard in shards]
    for shard in records:
        path = staging / shard.name
        size = path.stat().st_size if path.is_file() else None
        if size != shard.bytes:
            raise InputError(
                path,
                found="no such file" if size is None else f"{size} bytes",
                expected=f"a shard of {shard.bytes} bytes",
                remedy="remove the staging folder and build again",
            )
    if len({shard.has_pairs for shard in records if shard.rows}) > 1:
        raise InputError(
            staging,
            found="shards with pair lists and shards without",
            expected="pairs in all shards or in none",
            remedy="remove the staging folder and build again with one pair definition",
        )
