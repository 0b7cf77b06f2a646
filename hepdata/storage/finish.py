"""The last step of making a dataset: a staging folder of shards becomes the dataset, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hepdata.errors import InputError
from hepdata.schema import Schema
from hepdata.storage.atomic import disk_errors, sync_folder
from hepdata.storage.hdf5 import split_to_hdf5
from hepdata.storage.lock import refuse_existing
from hepdata.storage.manifest import (
    MANIFEST_NAME,
    FileFormat,
    Manifest,
    ShardRecord,
    SkippedEvent,
    SourceFile,
    make_manifest,
)
from hepdata.storage.place import open_place
from hepdata.storage.reader import read_shards


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
) -> Manifest:
    """Write the manifest into `staging` and rename the folder to `out`.

    Args:
        staging: Folder with every Parquet shard named in `splits`, on the same disk as `out`. Other files in
            it (notes of a resumable build) are removed.
        out: The dataset's folder, which must not exist or be empty.
        schema: Columns of every cloud.
        splits: Records of the shards, in order, for every split.
        configuration: The full configuration of the build.
        sources: Raw files.
        skipped: Events left out, with their reasons.
        file_format: "hdf5" turns the shards of each split into one HDF5 file.

    Raises:
        InputError: A shard is missing, shards disagree about pairs, or `out` exists.
        JobError: The disk refuses.
    """
    _check_shards(staging, splits)
    refuse_existing(out)
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
    publish(staging, out, manifest)
    return manifest


def publish(staging: Path, out: Path, manifest: Manifest) -> None:
    """Rename a complete staging folder to `out`, leaving behind what is not part of the dataset."""
    wanted = {MANIFEST_NAME} | {shard.name for shards in manifest.splits.values() for shard in shards}
    with disk_errors(out):
        for path in staging.iterdir():
            if path.name not in wanted:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        sync_folder(staging)
        if out.is_dir():
            out.rmdir()
        os.replace(staging, out)  # noqa: PTH105 (reads as what it is: the one atomic step)
        sync_folder(out.parent)


@contextmanager
def fresh_staging(out: Path) -> Iterator[Path]:
    """An empty folder beside `out` for work that is not resumed; it is gone afterwards, whatever happens."""
    staging = out.with_name(f".{out.name}.new")
    with disk_errors(out):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _as_hdf5(
    staging: Path, splits: Mapping[str, Sequence[ShardRecord]], schema: Schema
) -> dict[str, list[ShardRecord]]:
    parquet = make_manifest(schema=schema, file_format="parquet", splits=splits, configuration={})
    place = open_place(staging)
    return {
        split: split_to_hdf5(staging, split, read_shards(place, parquet, shards), schema, shards)
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
