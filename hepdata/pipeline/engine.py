"""Who builds the shards: this process, or a pool of processes on this machine; `dask.py` has a third engine.

In: shard jobs; out: their notes, in the order in which they are done.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from hepdata.errors import JobError
from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.shard import ShardJob, ShardNote, build_shard
from hepdata.storage.atomic import disk_errors

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
        spawning = multiprocessing.get_context("spawn")
        source_file = _write_source(source)
        pool = ProcessPoolExecutor(min(self.workers, len(jobs)), spawning, _start_worker, (source_file.name,))
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
                found="a worker process that died (killed, out of memory, or not started: see above)",
                expected="every worker to finish its shards",
                remedy="do the same again with fewer `workers`: it continues where it stopped; "
                "a script needs `if __name__ == '__main__':` above the call",
            ) from error
        finally:
            # Finished, failed or interrupted: nothing that a worker still does is needed.
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(cancel_futures=True)
            source_file.close()


def _write_source(source: EventSource) -> IO[bytes]:
    """A temporary file for the workers, removed when it is closed.

    Arguments of a new process go through a pipe, whose reading end this process holds too: if the new process
    dies before it has read them, and they are more than the pipe holds, this process waits without end.
    """
    with disk_errors(Path(tempfile.gettempdir())):
        file = tempfile.NamedTemporaryFile(prefix="hepdata-")  # noqa: SIM115
        pickle.dump(source, file)
        file.flush()
    return file


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach (they inherit the mask): this process stops them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_source: EventSource | None = None


def _start_worker(source_file: str) -> None:
    global _source
    _source = pickle.loads(Path(source_file).read_bytes())
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
