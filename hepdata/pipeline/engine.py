"""Who builds the shards: this process, or a pool of processes on this machine; `dask.py` has a third engine.

In: shard jobs; out: their notes, in the order in which they are done.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Protocol

from hepdata.errors import JobError
from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.shard import ShardJob, ShardNote, build_shard

# Bytes of input above which several processes are worth the second that they take to start.
LARGE_INPUT = 256_000_000
# Every worker holds one step of the input in memory, and all share one disk.
MOST_WORKERS = 4


def choose_workers(n_bytes: int) -> int:
    """Number of processes for an input of `n_bytes`: one per core, at most four, if the input is large."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_cores, MOST_WORKERS) if n_bytes >= LARGE_INPUT else 1


class Engine(Protocol):
    """Something that builds shards."""

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard; `tick` is called with the number of events that were completed."""


class InProcess:
    """One shard after the other in this process."""

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard; `tick` is called after every event."""
        for job in jobs:
            yield job, build_shard(source, job, tick)


class LocalPool:
    """A pool of processes on this machine.

    They are spawned, not forked: a fork of a process with threads (Arrow has some) can hang.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, source: EventSource, jobs: Sequence[ShardJob], tick: Callable[[int], None]
    ) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build every shard; `tick` is called after every shard.

        Raises:
            JobError: A worker died.
        """
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(
            min(self.workers, len(jobs)), multiprocessing.get_context("spawn"), _start_worker, (source,)
        )
        try:
            with _interrupts_blocked():
                waiting = {pool.submit(_build, job): job for job in jobs}
            for future in as_completed(waiting):
                job, note = waiting[future], future.result()
                tick(len(job.plan.events))
                yield job, note
        except BrokenProcessPool as error:
            raise JobError(
                jobs[0].staging,
                found="a worker process that died (killed, or out of memory)",
                expected="every worker to finish its shards",
                remedy="give fewer `workers` and do the same again: it continues where it stopped",
            ) from error
        finally:
            # Finished, failed or interrupted: nothing that a worker still does is needed.
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach (they inherit the mask): this process stops them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_source: EventSource | None = None


def _start_worker(source: EventSource) -> None:
    global _source
    _source = source
    # Idle workers of a pool would otherwise survive a parent that was killed.
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _build(job: ShardJob) -> ShardNote:
    if _source is None:
        raise RuntimeError("a worker was given a shard before it was started")
    return build_shard(_source, job)
