"""One shard: its events read, its file and its note written, in any process that sees the staging folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError, JobError
from hepdata.pipeline.event_source import CloudSource
from hepdata.pipeline.split_rule import ShardPlan
from hepdata.storage.atomic import sync_file, write_atomically
from hepdata.storage.dataset.manifest import ShardRecord, SkippedEvent
from hepdata.storage.parquet.writer import write_shard

OnError = Literal["stop", "skip"]
# The reason of an event that is left out without being anybody's fault.
NO_POINTS = "no points"


class ShardNote(BaseModel):
    """What is known of a finished shard; lies beside it until the dataset is finished."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: ShardRecord
    skipped: tuple[SkippedEvent, ...]
    n_dropped: int = 0


@dataclass(frozen=True)
class ShardJob:
    """Everything that a worker needs to write one shard, but for the source."""

    plan: ShardPlan
    staging: Path
    on_error: OnError


def bring_to_disk(shard: Path) -> None:
    """Wait until a finished shard is on the disk.

    One that the disk refuses is removed: the system's memory may go on showing the bytes that were to be
    written, and a later run would believe them.

    Raises:
        JobError: The bytes cannot be written.
    """
    try:
        sync_file(shard)
    except JobError:
        with suppress(OSError):
            shard.unlink()
        raise


def build_shard(
    source: CloudSource,
    job: ShardJob,
    tick: Callable[[], None] = lambda: None,
    sync: Callable[[Path], object] = bring_to_disk,
) -> ShardNote:
    """Write one shard and its note.

    The file has a name of its own until it is whole: a worker that everybody believes dead may still be
    writing the same shard.

    Args:
        source: Where clouds come from.
        job: What to write, and where.
        tick: Called after every event.
        sync: What brings the finished shard to the disk, at once or later.

    Raises:
        InputError: An event cannot be used and `on_error` is "stop".
        JobError: The disk is full or the memory is used up.
    """
    name = job.plan.name
    if not job.staging.is_dir():
        raise JobError(
            job.staging,
            found="no such folder on this worker",
            expected="the output folder on a file system that all workers share",
            remedy="choose an output folder on the cluster's shared file system",
        )
    skipped: list[SkippedEvent] = []
    dropped: list[int] = []
    try:
        record = write_shard(
            job.staging / name,
            _iterate_clouds(source, job, skipped, dropped, tick),
            source.schema,
            is_synced=False,
            has_rivals=True,
        )
    except MemoryError as error:
        raise JobError(
            job.staging / name,
            found="no memory left",
            expected="memory for one event per worker",
            remedy="give fewer `workers` and do the same again: it continues where it stopped",
        ) from error
    sync(job.staging / name)
    note = ShardNote(record=record, skipped=tuple(skipped), n_dropped=sum(dropped))
    # A note is believed only if its shard has the checksum: a power cut costs the work on a few shards.
    with write_atomically(_note_path(job), sync_content=False, sync_name=False) as file:
        file.write(note.model_dump_json().encode())
    return note


def read_note(job: ShardJob) -> ShardNote | None:
    """The note of a shard that an earlier run has finished, None where there is none to rely on.

    Raises:
        JobError: The shard is there, but the disk refuses it.
    """
    shard = job.staging / job.plan.name
    try:
        note = ShardNote.model_validate_json(_note_path(job).read_bytes())
        with shard.open("rb") as file:
            is_whole = hashlib.file_digest(file, "sha256").hexdigest() == note.record.sha256
    except (OSError, ValidationError):
        return None
    # Skipped under on_error='skip', but now asked to stop: look at the event again.
    if job.on_error == "stop" and any(entry.reason != NO_POINTS for entry in note.skipped):
        return None
    if not is_whole:
        return None
    # The run that wrote it may have ended before it was on the disk.
    bring_to_disk(shard)
    return note


def _iterate_clouds(
    source: CloudSource,
    job: ShardJob,
    skipped: list[SkippedEvent],
    dropped: list[int],
    tick: Callable[[], None],
) -> Iterator[PointCloud]:
    for event, result in source.read_clouds(job.plan.events):
        if isinstance(result, HeptError):
            if job.on_error == "stop" or not isinstance(result, InputError):
                raise result
            skipped.append(SkippedEvent(event_id=event.event_id, source=event.source, reason=str(result)))
        elif not result:
            skipped.append(SkippedEvent(event_id=event.event_id, source=event.source, reason=NO_POINTS))
        else:
            dropped.append(sum(cloud.n_dropped for cloud in result))
            yield from result
        del result
        tick()


def _note_path(job: ShardJob) -> Path:
    return job.staging / f"{job.plan.name}.json"
