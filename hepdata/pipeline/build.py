"""Whole builds: every event of a source into a dataset folder.

In: an `EventSource` (raw files and what to make of them); out: a finished dataset folder, and a summary.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict

from hepdata.errors import InputError
from hepdata.pipeline.engine import Engine, InProcess, LocalPool
from hepdata.pipeline.event_source import EventRef, EventSource
from hepdata.pipeline.identity import Identity, identify
from hepdata.pipeline.shard import NO_POINTS, OnError, ShardJob, ShardNote, read_note
from hepdata.pipeline.split_rule import ShardPlan, SplitRule, plan_shards
from hepdata.pipeline.staging import finished_build, staged, staging_of
from hepdata.pipeline.summary import BuildSummary, summarise
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.dataset.finish import finish_dataset, sweep_mark
from hepdata.storage.dataset.lock import lock_output, sweep_lock
from hepdata.storage.dataset.manifest import FileFormat, Manifest, ShardRecord, SkippedEvent
from hepdata.storage.dataset.own_files import remove_own
from hepdata.storage.dataset.replace import check_replaceable, replaced_of
from hepdata.storage.dataset.upload import check_output, local_folder
from hepdata.storage.location import open_location
from hepdata.storage.parquet.writer import write_shard

__all__ = ["BuildOptions", "BuildSummary", "SplitRule", "build_dataset"]


class BuildOptions(TypedDict, total=False):
    """Options of every build; `build_dataset` describes them and has their defaults."""

    split: str | SplitRule
    file_format: FileFormat
    events_per_shard: int | None
    workers: int | None
    engine: Literal["local", "dask"]
    scheduler: str | None
    on_error: OnError
    overwrite: bool


def build_dataset(
    source: EventSource,
    out: str | os.PathLike[str],
    *,
    split: str | SplitRule = SplitRule(),  # noqa: B008 (it is frozen)
    file_format: FileFormat = "parquet",
    events_per_shard: int | None = None,
    workers: int | None = None,
    engine: Literal["local", "dask"] = "local",
    scheduler: str | None = None,
    on_error: OnError = "stop",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> BuildSummary:
    """Build a dataset, or finish one that was begun; a build that is finished is left as it is.

    The files depend on the source, the split rule and `events_per_shard` only, not on the engine, the number
    of workers or the number of attempts.

    Args:
        source: Raw events and configuration.
        out: Folder of the dataset, which is built in `out`.partial and then renamed. Or an fsspec URL, to
            which the dataset is uploaded from a temporary folder, the manifest last.
        split: Shares of train/valid/test, or event ids as in "train=0-799,valid=800-899,test=900-999".
        file_format: Of the data files.
        events_per_shard: Events of a data file; None chooses a number from that of all events.
        workers: Processes, 1 if None; with more than one, a script needs `if __name__ == "__main__"`.
        engine: "local" processes, or a "dask" cluster.
        scheduler: Address of a Dask scheduler; None starts one on this machine.
        on_error: "stop" at an event that cannot be used, or "skip" and record it.
        overwrite: Replace a dataset, or an unfinished build, of another configuration; the old dataset is
            kept until the new one is complete.
        progress: Listener.

    Raises:
        InputError: Unusable input, or an output folder that is taken, or `overwrite` with a URL.
        JobError: No space or memory left, or a worker died; the same call continues.
    """
    check_output(out, overwrite=overwrite)
    rule = SplitRule.parse(split) if isinstance(split, str) else split
    events = source.list_events()
    _check_request(workers, events_per_shard, events)
    plans = plan_shards(rule.divide(events), events_per_shard)
    listener = progress or Silent()
    build = _Build(
        source,
        rule,
        plans,
        identify(source, rule, plans, file_format, listener),
        file_format,
        on_error,
        overwrite,
        _choose_engine(engine, 1 if workers is None else workers, scheduler),
        listener,
    )
    with local_folder(out, listener, build=build.identity.fingerprint) as folder:
        summary = _finish_or_make(build, folder)
    return summary if open_location(out).is_local else replace(summary, out=os.fspath(out))


@dataclass(frozen=True)
class _Build:
    """What to build, and how."""

    source: EventSource
    rule: SplitRule
    plans: Sequence[ShardPlan]
    identity: Identity
    file_format: FileFormat
    on_error: OnError
    overwrite: bool
    engine: Engine
    progress: Progress


def _finish_or_make(build: _Build, out: Path) -> BuildSummary:
    """Recognise a finished build, continue an unfinished one, or begin a new one."""
    if replaced_of(out).exists():
        # An earlier run was killed while it replaced this dataset by its own.
        with lock_output(out, is_replaced=True):
            pass
    if build.overwrite:
        check_replaceable(out)
    done = _find_finished(build, out)
    if done is not None:
        sweep_lock(out)
        sweep_mark(out)
        return summarise(out, done, build.rule, n_resumed=0, was_finished=True)
    staging = staging_of(out)
    with (
        lock_output(out, is_replaced=build.overwrite),
        staged(staging, build.identity.fingerprint, is_discarded=build.overwrite),
    ):
        return _make_dataset(build, out, [ShardJob(plan, staging, build.on_error) for plan in build.plans])


def _find_finished(build: _Build, out: Path) -> Manifest | None:
    try:
        return finished_build(out, build.identity.fingerprint)
    except InputError:
        if build.overwrite:
            return None
        raise


def _make_dataset(build: _Build, out: Path, jobs: Sequence[ShardJob]) -> BuildSummary:
    notes, n_resumed = _run_jobs(build, jobs)
    manifest = finish_dataset(
        jobs[0].staging,
        out,
        schema=build.source.schema,
        splits=_collect_records(build.source, jobs, notes),
        configuration={
            **build.identity.configuration,
            "n_dropped": sum(note.n_dropped for note in notes.values()),
        },
        sources=build.identity.sources,
        skipped=[entry for job in jobs for entry in notes[job.plan.name].skipped],
        file_format=build.file_format,
        is_replaced=build.overwrite,
    )
    return summarise(out, manifest, build.rule, n_resumed=n_resumed, was_finished=False)


def _run_jobs(build: _Build, jobs: Sequence[ShardJob]) -> tuple[dict[str, ShardNote], int]:
    notes = {job.plan.name: note for job in jobs if (note := read_note(job)) is not None}
    n_resumed = len(notes)
    left = [job for job in jobs if job.plan.name not in notes]
    if left:
        with counting(build.progress, "building", sum(len(job.plan.events) for job in left), "event"):
            for job, note in build.engine.run(build.source, left, build.progress.advance):
                notes[job.plan.name] = note
    return notes, n_resumed


def _collect_records(
    source: EventSource, jobs: Sequence[ShardJob], notes: dict[str, ShardNote]
) -> dict[str, list[ShardRecord]]:
    records = [(job, notes[job.plan.name].record) for job in jobs]
    filled = [record for _, record in records if record.rows]
    if not filled:
        # Nothing to continue from: the same command would give the same result.
        remove_own(jobs[0].staging)
        raise _nothing_usable([entry for job in jobs for entry in notes[job.plan.name].skipped])
    splits: dict[str, list[ShardRecord]] = {}
    for job, record in records:
        if not record.rows and record.has_pairs != filled[0].has_pairs:
            # An empty shard had no cloud to take this from; all files of a dataset have the same columns.
            record = write_shard(job.staging / record.name, [], source.schema, has_pairs=filled[0].has_pairs)
        splits.setdefault(job.plan.split, []).append(record)
    return splits


def _nothing_usable(skipped: Sequence[SkippedEvent]) -> InputError:
    events = "1 event" if len(skipped) == 1 else f"{len(skipped)} events"
    first = next((entry for entry in skipped if entry.reason != NO_POINTS), None)
    return InputError(
        skipped[0].source if first is None else first.source,
        found=f"no points in any of {events}" if first is None else f"no usable event ({first.reason})",
        expected="at least one cloud",
        remedy="check the input files and the cuts",
    )


def _choose_engine(engine: str, workers: int, scheduler: str | None) -> Engine:
    if engine == "dask":
        from hepdata.pipeline.dask import DaskCluster

        return DaskCluster(workers, scheduler)
    if scheduler is not None:
        raise InputError(
            "`scheduler`",
            found=f"{scheduler!r} with `engine='local'`",
            expected="a scheduler for `engine='dask'` only",
            remedy="add `engine='dask'`",
        )
    return LocalPool(workers) if workers > 1 else InProcess()


def _check_request(workers: int | None, events_per_shard: int | None, events: Sequence[EventRef]) -> None:
    for name, value in (("`workers`", workers), ("`events_per_shard`", events_per_shard)):
        if value is not None and value < 1:
            raise InputError(name, found=str(value), expected="at least 1", remedy="give a positive number")
    if not events:
        raise InputError(
            "the source", found="no events", expected="at least one event", remedy="check the input files"
        )
