"""Merge datasets that were built with the same configuration from different events."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from hepdata.errors import InputError
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.finish import fresh_staging, move_into_place
from hepdata.storage.dataset.lock import lock_output
from hepdata.storage.dataset.manifest import Manifest, ShardRecord, make_manifest
from hepdata.storage.dataset.names import SPLITS, name_hdf5, name_shard
from hepdata.storage.dataset.statistics import add_up
from hepdata.storage.dataset.upload import local_folder
from hepdata.storage.hdf5.writer import Compression, Sizes, write_hdf5
from hepdata.storage.location import DatasetLocation, open_location
from hepdata.storage.shard_reader import damaged, missing, read_shards

Part = tuple[DatasetLocation, Manifest]


def merge_datasets(
    sources: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    compression: Compression = "none",
    progress: Progress | None = None,
) -> Manifest:
    """Put the clouds of several datasets into one new folder, split by split; see `hepdata.merge`.

    Parquet shards are copied; HDF5 files are written again.
    """
    parts = [(open_location(source), Manifest.read(source)) for source in sources]
    _check_agreement(parts)
    listener = progress or Silent()
    first = parts[0][1]
    names = [split for split in SPLITS if any(split in manifest.splits for _, manifest in parts)]
    names += [split for _, manifest in parts for split in manifest.splits if split not in SPLITS]
    n_files = sum(len(shards) for _, manifest in parts for shards in manifest.splits.values())
    with (
        counting(listener, "merging", n_files, "file"),
        local_folder(out, listener) as folder,
        lock_output(folder),
        fresh_staging(folder) as staging,
    ):
        splits = {
            split: _merge_parquet(parts, split, staging, listener)
            if first.file_format == "parquet"
            else _merge_hdf5(parts, split, staging, listener, compression)
            for split in dict.fromkeys(names)
        }
        manifest = make_manifest(
            schema=first.as_schema(),
            file_format=first.file_format,
            splits=splits,
            configuration={
                "task": first.task,
                "source": first.configuration.get("source", {}),
                "merged": [
                    {"fingerprint": part.fingerprint, "configuration": part.configuration}
                    for _, part in parts
                ],
            },
            # Several datasets may have the same detector file as a source.
            sources=list(dict.fromkeys(file for _, part in parts for file in part.sources)),
            skipped=[event for _, part in parts for event in part.skipped],
            totals={
                split: add_up([part.totals[split] for _, part in parts if split in part.totals])
                for split in splits
            },
            # Parquet shards are copied without change.
            format_version=first.format_version,
        )
        manifest.write(staging)
        move_into_place(staging, folder, manifest)
    return manifest


def _check_agreement(parts: list[Part]) -> None:
    if len(parts) < 2:
        raise InputError(
            "merge",
            found=f"{len(parts)} dataset",
            expected="at least two",
            remedy="name all datasets to merge",
        )
    (first_place, first), *others = parts
    homes = {event: (first_place, split) for split, event in _events(first)}
    for root, manifest in others:
        for what, ours, theirs in _compare(first, manifest):
            if ours != theirs:
                raise InputError(
                    root.location,
                    found=f"another {what} ({_shorten(theirs)})",
                    expected=f"that of {first_place.location} ({_shorten(ours)})",
                    remedy="build both with the same configuration and the same version of hept",
                )
        for split, event in _events(manifest):
            if event in homes:
                home, other = homes[event]
                raise InputError(
                    f"{root.location}, split {split}",
                    found=f"event {event}, which is in split {other} of {home.location} too",
                    expected="every event once",
                    remedy="remove one of the two datasets, or build it with other event numbers",
                )
        homes |= {event: (root, split) for split, event in _events(manifest)}


def _compare(first: Manifest, other: Manifest) -> list[tuple[str, object, object]]:
    return [
        ("task", first.task, other.task),
        ("file format", first.file_format, other.file_format),
        ("format version", first.format_version, other.format_version),
        ("set of columns", first.columns, other.columns),
        ("list of features", first.features, other.features),
        ("list of coordinates", first.coordinates, other.coordinates),
        ("choice of pairs", first.has_pairs, other.has_pairs),
        ("configuration", first.configuration.get("source"), other.configuration.get("source")),
    ]


def _events(manifest: Manifest) -> list[tuple[str, int]]:
    return [
        (split, e) for split, shards in manifest.splits.items() for shard in shards for e in shard.event_ids
    ]


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _merge_parquet(parts: list[Part], split: str, staging: Path, listener: Progress) -> list[ShardRecord]:
    found = [(root, shard) for root, manifest in parts for shard in manifest.splits.get(split, [])]
    merged = []
    for number, (root, shard) in enumerate(found):
        name = name_shard(split, number, len(found))
        _copy_shard(root, shard, staging / name)
        merged.append(shard.model_copy(update={"name": name}))
        listener.advance()
    return merged


def _copy_shard(root: DatasetLocation, shard: ShardRecord, path: Path) -> None:
    """Copy a file and compare its checksum with the manifest."""
    try:
        source = root.open(shard.name)
    except FileNotFoundError as error:
        raise missing(root.name_of(shard.name)) from error
    digest = hashlib.sha256()
    with source, disk_errors(path), path.open("wb") as target:
        while block := source.read(1 << 20):
            digest.update(block)
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
        size = target.tell()
    if (size, digest.hexdigest()) != (shard.bytes, shard.sha256):
        raise damaged(root.name_of(shard.name), f"{size} bytes with another checksum than the manifest's")


def _merge_hdf5(
    parts: list[Part], split: str, staging: Path, listener: Progress, compression: Compression
) -> list[ShardRecord]:
    found = [(root, m, m.splits[split]) for root, m in parts if m.splits.get(split)]
    shards = [shard for _, _, own in found for shard in own]
    if not shards:
        return []
    record = write_hdf5(
        staging / name_hdf5(split),
        chain.from_iterable(read_shards(root, manifest, own) for root, manifest, own in found),
        found[0][1].as_schema(),
        has_pairs=found[0][1].has_pairs,
        sizes=Sizes.of(add_up([shard.statistics for shard in shards])),
        rows_per_part=[rows for shard in shards for rows in shard.rows_per_part],
        compression=compression,
    )
    listener.advance(len(shards))
    return [record]
