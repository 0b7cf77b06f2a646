"""One shard: its events read, its file and its note written, in any process that sees the staging folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError, JobError
from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.split_rule import ShardPlan
from hepdata.storage.atomic import write_atomically
from hepdata.storage.dataset.manifest import ShardRecord, SkippedEvent
from hepdata.storage.parquet.writer import write_shard

OnError = Literal["stop", "skip"]
# The recorded reason for an event that is left out without an error.
NO_POINTS = "no points"


class ShardNote(BaseModel):
    """What is known of a finished shard; stored next to it until the dataset is finished."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: ShardRecord
    skipped: tuple[SkippedEvent, ...]
    n_dropped: int = 0


@dataclass(frozen=True)
class ShardJob:
    """Everything that a worker needs to write one shard, except the source."""

    plan: ShardPlan
    staging: Path
    on_error: OnError


def build_shard(
    source: EventSource, job: ShardJob, tick: Callable[[int], object] = lambda _: None
) -> ShardNote:
    """Write one shard and its note.

    The temporary file has a unique name: a worker that Dask considers dead may still write the same shard.

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
            has_rivals=True,
        )
    except MemoryError as error:
        raise JobError(
            job.staging / name,
            found="no memory left",
            expected="memory for one event per worker",
            remedy="give fewer `workers` and do the same again: it continues where it stopped",
        ) from error
    note = ShardNote(record=record, skipped=tuple(skipped), n_dropped=sum(dropped))
    # Not synced: a note is used only if its shard has the checksum. A power cut costs a few shards at most.
    with write_atomically(_note_path(job), sync_content=False, sync_name=False) as file:
        file.write(note.model_dump_json().encode())
    return note


def read_note(job: ShardJob) -> ShardNote | None:
    """The note that an earlier run left; None if it is missing or does not fit its shard."""
    try:
        note = ShardNote.model_validate_json(_note_path(job).read_bytes())
        with (job.staging / job.plan.name).open("rb") as file:
            is_whole = hashlib.file_digest(file, "sha256").hexdigest() == note.record.sha256
    except (OSError, ValidationError):
        return None
    # Skipped under on_error='skip', but now asked to stop: read the event again.
    is_refused = job.on_error == "stop" and any(entry.reason != NO_POINTS for entry in note.skipped)
    return note if is_whole and not is_refused else None


def _iterate_clouds(
    source: EventSource,
    job: ShardJob,
    skipped: list[SkippedEvent],
    dropped: list[int],
    tick: Callable[[int], object],
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
        tick(1)


def _note_path(job: ShardJob) -> Path:
    return job.staging / f"{job.plan.name}.json"
