"""Lossless conversion between formats and versions, with one cloud in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.dataset.finish import fresh_staging, move_into_place
from hepdata.storage.dataset.lock import lock_output
from hepdata.storage.dataset.manifest import (
    FORMAT_VERSION,
    FileFormat,
    Manifest,
    ShardRecord,
    make_manifest,
)
from hepdata.storage.dataset.names import name_shard
from hepdata.storage.dataset.upload import local_folder
from hepdata.storage.hdf5.writer import Compression, split_to_hdf5
from hepdata.storage.location import open_location
from hepdata.storage.parquet.writer import write_shard
from hepdata.storage.shard_reader import read_shards


def convert_dataset(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    file_format: FileFormat,
    *,
    compression: Compression = "none",
    progress: Progress | None = None,
) -> Manifest:
    """Write a dataset in another format, or in the current version of the same one; see `hepdata.convert`.

    Parquet → HDF5 → Parquet gives the same bytes.
    """
    root = open_location(source)
    manifest = Manifest.read(source)
    if (manifest.file_format, manifest.format_version) == (file_format, FORMAT_VERSION):
        raise InputError(
            root.location,
            found=f"a dataset in {file_format} already",
            expected=f"a dataset in the other format, or of a version before {FORMAT_VERSION}",
            remedy="copy the folder instead",
        )
    listener = progress or Silent()
    with (
        counting(listener, f"converting to {file_format}", manifest.statistics().n_clouds, "cloud"),
        local_folder(out, listener) as folder,
        lock_output(folder),
        fresh_staging(folder) as staging,
    ):
        splits: dict[str, list[ShardRecord]] = {}
        for split, shards in manifest.splits.items():
            clouds = _told(read_shards(root, manifest, shards), listener)
            if file_format == "parquet":
                splits[split] = _to_parquet(staging, split, clouds, manifest, shards)
            else:
                splits[split] = split_to_hdf5(
                    staging, split, clouds, manifest.as_schema(), shards, compression
                )
        result = make_manifest(
            schema=manifest.as_schema(),
            file_format=file_format,
            splits=splits,
            configuration=manifest.configuration,
            sources=manifest.sources,
            skipped=manifest.skipped,
        )
        result.write(staging)
        move_into_place(staging, folder, result)
    return result


def _to_parquet(
    staging: Path, split: str, clouds: Iterator[PointCloud], manifest: Manifest, files: Sequence[ShardRecord]
) -> list[ShardRecord]:
    parts = [rows for file in files for rows in file.rows_per_part or [file.rows]]
    return [
        write_shard(
            staging / name_shard(split, i, len(parts)),
            islice(clouds, rows),
            manifest.as_schema(),
            has_pairs=manifest.has_pairs,
        )
        for i, rows in enumerate(parts)
    ]


def _told(clouds: Iterator[PointCloud], listener: Progress) -> Iterator[PointCloud]:
    for cloud in clouds:
        yield cloud
        listener.advance()
