"""Who does the work: this process, or a pool of processes on this machine.

In: shard jobs; out: their notes, in the order in which they are done.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from typing import Protocol

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, JobError
from hepdata.pipeline.event import EventRef, EventSource
from hepdata.pipeline.shard import ShardJob, ShardNote, bring_to_disk, build_shard
from hepdata.schema import Schema


class Engine(Protocol):
    """Something that builds shards."""

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard; `tick` is told how many more events are done."""


class InProcess:
    """One shard after the other, here."""

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard; while one is brought to the disk, the next is written.

        Raises:
            JobError: The disk refused a shard.
        """
        through = _ReadThrough(source, jobs)
        unsynced: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1, "disk") as disk:
            for job in jobs:
                note = build_shard(
                    through,
                    job,
                    lambda: tick(1),
                    lambda path: unsynced.append(disk.submit(bring_to_disk, path)),
                )
                yield job, note
                while unsynced and unsynced[0].done():
                    unsynced.popleft().result()
            for waiting in unsynced:
                waiting.result()


class _ReadThrough:
    """One reading for all shards in turn: a source may read on while a shard is being finished."""

    def __init__(self, source: EventSource, jobs: Sequence[ShardJob]) -> None:
        self.schema: Schema = source.schema
        self._clouds = source.read_clouds([event for job in jobs for event in job.plan.events])

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """The next events, which must be asked for in the order of the jobs."""
        return islice(self._clouds, len(events))


class LocalPool:
    """Worker processes on this machine.

    Workers are spawned, not forked: a fork of a process with threads (Arrow has some) can hang. They hold one
    end of a pipe whose other end is here, and leave when it closes: on Ctrl-C, and even when this process is
    killed without a chance to say so.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard.

        Raises:
            JobError: A worker died.
        """
        context = multiprocessing.get_context("spawn")
        lifeline, held_end = context.Pipe(duplex=False)
        ticks: SimpleQueue[int] = context.SimpleQueue()
        pool = ProcessPoolExecutor(
            max_workers=min(self.workers, len(jobs)),
            mp_context=context,
            initializer=_start_worker,
            initargs=(source, lifeline, ticks),
        )
        is_done = False
        try:
            waiting = {pool.submit(_work, job): job for job in jobs}
            yield from _collect(waiting, ticks, tick)
            is_done = True
        except BrokenProcessPool as error:
            raise JobError(
                jobs[0].staging,
                found="a worker process that died (killed, or out of memory)",
                expected="every worker to finish its shards",
                remedy="give fewer --workers and run the same command again: it continues where it stopped",
            ) from error
        finally:
            if not is_done:
                held_end.close()
            pool.shutdown(wait=True, cancel_futures=True)
            held_end.close()
            lifeline.close()


def _collect(
    waiting: dict[Future[ShardNote], ShardJob], ticks: SimpleQueue[int], tick: Callable[[int], None]
) -> Iterator[tuple[ShardJob, ShardNote]]:
    while waiting:
        done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
        while not ticks.empty():
            tick(ticks.get())
        for future in done:
            yield waiting.pop(future), future.result()


_source: EventSource | None = None
_ticks: SimpleQueue[int] | None = None


def _start_worker(source: EventSource, lifeline: Connection, ticks: SimpleQueue[int]) -> None:
    global _source, _ticks
    # Ctrl-C reaches the whole group; the parent alone decides, and the lifeline tells.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    _source, _ticks = source, ticks


def _leave_with_parent(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)


def _work(job: ShardJob) -> ShardNote:
    source, ticks = _source, _ticks
    if source is None or ticks is None:
        raise RuntimeError("a worker was asked to work before it was started")
    return build_shard(source, job, lambda: ticks.put(1))
