"""Validation of a dataset: checksums of all bytes, consistency of every cloud, overlap of splits.

In: the location of a dataset; out: findings, each with shard, event and remedy.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.columns import arrow_schema, cloud_from, list_columns, name_cloud
from hepdata.storage.dataset.cloud_checks import REBUILD, check_cloud
from hepdata.storage.dataset.manifest import Manifest, ShardRecord
from hepdata.storage.dataset.manifest_checks import MAX_MANIFEST_BYTES
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.statistics import Statistics, add_up, count_cloud
from hepdata.storage.location import DatasetLocation, open_location
from hepdata.storage.shard_reader import open_shard

COPY_AGAIN = "copy the file again from its source, or build the dataset again"


@dataclass(frozen=True)
class Finding:
    """One problem of a dataset.

    Attributes:
        shard: File at fault.
        event: Cloud at fault, "" for the whole file.
        problem: What is wrong.
        remedy: What to do.
    """

    shard: str
    event: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.shard}, {self.event}" if self.event else self.shard
        return f"{where}: {self.problem}; {self.remedy}"


@dataclass
class _Seen:
    """What was read so far, to find repetitions."""

    split_of_event: dict[int, str] = field(default_factory=dict)
    clouds: dict[tuple[int, int], str] = field(default_factory=dict)
    contents: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    counts: dict[str, list[Statistics]] = field(default_factory=dict)


def validate_dataset(location: str | os.PathLike[str], *, progress: Progress | None = None) -> list[Finding]:
    """Check everything about a dataset; see `hepdata.validate`."""
    root = open_location(location)
    text = root.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES)
    listener = progress or Silent()
    try:
        manifest = Manifest.parse(text, root)
    except InputError as error:
        if "format version" in error.found:
            raise
        return [Finding(MANIFEST_NAME, "", error.found, error.remedy)]
    findings = list(_check_folder(root, manifest))
    seen = _Seen()
    with counting(listener, "validating", manifest.statistics().n_clouds, "cloud"):
        for split, shards in manifest.splits.items():
            for shard in shards:
                findings += _check_shard(root, manifest, split, shard, seen, listener)
        findings += _check_totals(manifest, seen, findings)
    return findings


def _check_folder(root: DatasetLocation, manifest: Manifest) -> Iterator[Finding]:
    if root.is_local:
        listed = {shard.name for shards in manifest.splits.values() for shard in shards}
        for path in sorted(Path(root.location).iterdir()):
            if path.suffix in (".parquet", ".h5") and path.name not in listed:
                yield Finding(path.name, "", "a data file that the manifest does not list", "remove it")


def _check_shard(
    root: DatasetLocation,
    manifest: Manifest,
    split: str,
    shard: ShardRecord,
    seen: _Seen,
    listener: Progress,
) -> Iterator[Finding]:
    try:
        digest, size = _digest(root, shard.name)
    except FileNotFoundError:
        yield Finding(shard.name, "", "no such file", "copy the missing file, or build the dataset again")
        return
    if size != shard.bytes or digest != shard.sha256:
        yield Finding(shard.name, "", f"{size} bytes with another checksum than the manifest's", COPY_AGAIN)
    try:
        yield from _check_clouds(root, manifest, split, shard, seen, listener)
    except InputError as error:
        yield Finding(shard.name, "", error.found, error.remedy)


def _check_clouds(
    root: DatasetLocation,
    manifest: Manifest,
    split: str,
    shard: ShardRecord,
    seen: _Seen,
    listener: Progress,
) -> Iterator[Finding]:
    if manifest.file_format == "parquet":
        yield from _check_arrow_schema(root, manifest, shard)
    schema = manifest.as_schema()
    names = [column.name for column in list_columns(schema, manifest.has_pairs)]
    reader = open_shard(root, manifest, shard)
    counted: list[Statistics] = []
    try:
        for row, entry in enumerate(reader.rows):
            event_id, sector = int(entry["event_id"]), int(entry["sector"])
            try:
                cloud = cloud_from(schema, event_id, sector, reader.read(row, names))
            except InputError as error:
                yield Finding(shard.name, f"event {event_id}, sector {sector}", error.found, error.remedy)
                continue
            for problem, remedy in check_cloud(cloud, int(entry["n_points"]), schema.columns):
                yield Finding(shard.name, name_cloud(cloud), problem, remedy)
            yield from _check_repetition(cloud, split, shard, seen)
            counted.append(count_cloud(cloud))
            listener.advance()
    finally:
        reader.close()
    events = list(dict.fromkeys(int(event_id) for event_id in reader.rows["event_id"]))
    total = add_up(counted)
    seen.counts.setdefault(split, []).append(total)
    is_counted = replace(total, columns={}) == shard.statistics
    if len(reader.rows) != shard.rows or events != shard.event_ids or not is_counted:
        yield Finding(shard.name, "", "clouds that are not those that the manifest counts", REBUILD)


def _check_totals(manifest: Manifest, seen: _Seen, findings: list[Finding]) -> Iterator[Finding]:
    if findings:
        # Totals that differ because of a damaged shard would be reported twice.
        return
    for split, expected in manifest.totals.items():
        found = add_up(seen.counts.get(split, []))
        for name, column in found.columns.items():
            other = expected.columns.get(name)
            # With a tolerance: merging adds in another order.
            is_equal = other is not None and isclose(column.total, other.total, rel_tol=1e-9, abs_tol=1e-6)
            if other is None or not is_equal or replace(column, total=other.total) != other:
                yield Finding(
                    MANIFEST_NAME, "", f"other values of {name} in split {split} than counted", REBUILD
                )


def _check_repetition(cloud: PointCloud, split: str, shard: ShardRecord, seen: _Seen) -> Iterator[Finding]:
    name = name_cloud(cloud)
    other = seen.split_of_event.setdefault(cloud.event_id, split)
    if other != split:
        yield Finding(
            shard.name, name, f"an event of split {other} in split {split}", "split by whole events"
        )
    key = (cloud.event_id, cloud.sector)
    if key in seen.clouds:
        yield Finding(
            shard.name, name, f"the same event and sector as in {seen.clouds[key]}", "merge each once"
        )
        return
    seen.clouds[key] = shard.name
    if cloud.n_points and {"eta", "phi"} <= set(cloud.columns):
        content = hashlib.sha256(cloud.eta.tobytes() + cloud.phi.tobytes()).digest()
        event_id, other = seen.contents.setdefault(content, (cloud.event_id, f"{name} in {shard.name}"))
        # Sectors of one event overlap: two of them may have the same points.
        if event_id != cloud.event_id:
            yield Finding(shard.name, name, f"the same points as {other}", "remove one source")


def _check_arrow_schema(root: DatasetLocation, manifest: Manifest, shard: ShardRecord) -> Iterator[Finding]:
    import pyarrow.parquet as pq

    with root.open(shard.name) as file:
        try:
            found = pq.read_schema(file)
        except (OSError, ValueError) as error:
            yield Finding(shard.name, "", f"no Parquet file ({error})", COPY_AGAIN)
            return
    expected = arrow_schema(manifest.as_schema(), manifest.has_pairs)
    if not found.equals(expected, check_metadata=False):
        yield Finding(shard.name, "", "other columns than the manifest's", REBUILD)


def _digest(root: DatasetLocation, name: str) -> tuple[str, int]:
    with root.open(name) as file:
        digest, size = hashlib.sha256(), 0
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
