"""Who does the work: this process, alone or with others on this machine.

In: shard jobs; out: their notes, in the order in which they are done.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from typing import Protocol

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, JobError
from hepdata.pipeline.event_source import EventRef, EventSource, ThreadedSource
from hepdata.pipeline.shard import ShardJob, ShardNote, bring_to_disk, build_shard
from hepdata.schema import Schema

# Bytes of input from which another process is worth the second that it takes to start.
LARGE_INPUT = 256_000_000
# Every worker has a step in memory, and the disk is one.
MOST_WORKERS = 4


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_workers(n_bytes: int) -> int:
    """How many processes an input of so many bytes is worth: one per core, up to four, for a large one."""
    return min(count_cores(), MOST_WORKERS) if n_bytes >= LARGE_INPUT else 1


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
        return _build_in_turn(source, deque(jobs), tick)


def _build_in_turn(
    source: EventSource, left: deque[ShardJob], tick: Callable[[int], None]
) -> Iterator[tuple[ShardJob, ShardNote]]:
    """Build shards from the front of what is left; others may take some from the back meanwhile."""
    unsynced: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1, "disk") as disk, closing(_ReadThrough(source, list(left))) as through:
        while left:
            job = left.popleft()
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

    def close(self) -> None:
        """Stop reading."""
        if isinstance(self._clouds, Generator):
            self._clouds.close()


class LocalPool:
    """This process and others on this machine.

    This process begins at the front while the others start, which takes them a second, and take runs of
    shards from the back. They are spawned, not forked: a fork of a process with threads (Arrow has some) can
    hang. They hold one end of a pipe whose other end is here, and leave when it closes: on Ctrl-C, and even
    when this process is killed without a chance to say so.
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
        if isinstance(source, ThreadedSource) and 2 * self.workers > count_cores():
            source = source.without_threads()
        context = multiprocessing.get_context("spawn")
        others = set(multiprocessing.active_children())
        lifeline, held_end = context.Pipe(duplex=False)
        ticks: SimpleQueue[int] = context.SimpleQueue()
        pool = ProcessPoolExecutor(
            max_workers=max(min(self.workers, len(jobs)) - 1, 1),
            mp_context=context,
            initializer=_start_worker,
            initargs=(source, lifeline, ticks),
        )
        try:
            yield from _Share(pool, self.workers, jobs, ticks, tick).run(source)
        except BrokenProcessPool as error:
            raise JobError(
                jobs[0].staging,
                found="a worker process that died (killed, or out of memory)",
                expected="every worker to finish its shards",
                remedy="give fewer `workers` and do the same again: it continues where it stopped",
            ) from error
        finally:
            # Needed no more, or to be stopped: they leave at once. Asked to by the pool, an interpreter would
            # first tidy up for a third of a second.
            held_end.close()
            for process in set(multiprocessing.active_children()) - others:
                process.join()
            pool.shutdown(wait=True, cancel_futures=True)
            lifeline.close()


class _Share:
    """The jobs that nobody has taken, and those that others have."""

    def __init__(
        self,
        pool: ProcessPoolExecutor,
        workers: int,
        jobs: Sequence[ShardJob],
        ticks: SimpleQueue[int],
        tick: Callable[[int], None],
    ) -> None:
        self._pool, self._workers = pool, workers
        self._left = deque(jobs)
        self._given: dict[Future[list[ShardNote]], list[ShardJob]] = {}
        self._ticks, self._tick = ticks, tick

    def run(self, source: EventSource) -> Iterator[tuple[ShardJob, ShardNote]]:
        """Build from the front here, as long as the others leave something."""
        self._give()
        for done in _build_in_turn(source, self._left, self._tell):
            yield done
            yield from self._collect(timeout=0)
        while self._given:
            yield from self._collect(timeout=0.2)

    def _give(self) -> None:
        """Give others runs of shards from the back: long ones first, and one that waits for each."""
        while len(self._left) > 1 and len(self._given) < 2 * (self._workers - 1):
            n_taken = max(len(self._left) // (2 * self._workers), 1)
            taken = [self._left.pop() for _ in range(n_taken)][::-1]
            with _interrupts_held_back():
                self._given[self._pool.submit(_work, taken)] = taken

    def _collect(self, timeout: float) -> Iterator[tuple[ShardJob, ShardNote]]:
        done, _ = wait(self._given, timeout=timeout, return_when=FIRST_COMPLETED)
        self._pass_on()
        for future in done:
            yield from zip(self._given.pop(future), future.result(), strict=True)
        self._give()

    def _tell(self, n_here: int) -> None:
        self._tick(n_here)
        self._pass_on()

    def _pass_on(self) -> None:
        """Tell of the events that are done elsewhere."""
        while not self._ticks.empty():
            self._tick(self._ticks.get())


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A process that is started here does not hear Ctrl-C, not even before it can say that it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def _work(jobs: list[ShardJob]) -> list[ShardNote]:
    source, ticks = _source, _ticks
    if source is None or ticks is None:
        raise RuntimeError("a worker was asked to work before it was started")
    return [note for _, note in _build_in_turn(source, deque(jobs), ticks.put)]
