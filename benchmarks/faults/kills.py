"""Jobs that are killed, find the disk full or meet a rival: the same job again gives the same result."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from benchmarks.faults import child
from benchmarks.faults.jobs import ALONE, IN_SEVERAL_PROCESSES, Job, Result, read_files
from benchmarks.faults.outputs import OUTPUTS
from benchmarks.faults.tally import Kind, Tally, spread

JOBS = (*ALONE, *OUTPUTS, *IN_SEVERAL_PROCESSES)


@dataclass(frozen=True)
class Undisturbed:
    """A job that nothing happened to.

    Attributes:
        result: What it made.
        names: What lies beside it.
        n_steps: How often it opened, made, renamed or removed something.
        seconds: How long it took.
    """

    result: Result
    names: frozenset[str]
    n_steps: int
    seconds: float

    @property
    def largest(self) -> int:
        """Bytes of the largest part of the result."""
        return max(map(len, self.result.values()))


@dataclass(frozen=True)
class Try:
    """One job that is to be disturbed.

    Attributes:
        job: The job.
        copy: Folder to do it in.
        whole: What it makes undisturbed.
        number: Of the try.
        draw: Random numbers of this try.
    """

    job: Job
    copy: Path
    whole: Undisturbed
    number: int
    draw: random.Random

    def work(self) -> object:
        """Do the job."""
        return self.job.work(self.copy) and ""

    def finish(self, problem: str) -> tuple[child.Outcome, str]:
        """Do the job again after a fault, and compare; `problem` is what is wrong already."""
        outcome = child.run(self.work)
        if outcome.ending != "done":
            return child.Outcome("traceback", f"{problem} the rerun: {outcome.text}"), "rerun"
        if not problem and self.job.read(self.copy / self.job.out) != self.whole.result:
            problem = "another result"
        names = {path.name for path in self.copy.iterdir() if not path.name.endswith(".lock")}
        left = sorted(names - self.whole.names)
        return outcome, problem or (f"left {left}" if left else "")


# Disturbs a job; says what is wrong already.
Fault = Callable[[Try], str]


def fresh(folder: Path, job: Job | None = None) -> Path:
    """A copy of what jobs start from."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "start", copy)
    if job is not None and job.prepare is not None:
        job.prepare(copy)
    return copy


@cache
def run_undisturbed(job: Job, folder: Path) -> Undisturbed:
    """What a job makes, and how."""
    copy = fresh(folder, job)
    begun = time.monotonic()
    outcome = child.run(lambda: child.count_steps(partial(job.work, copy), copy))
    seconds = time.monotonic() - begun
    if outcome.ending != "done":
        raise SystemExit(f"{job.name} fails undisturbed: {outcome.text}")
    names = frozenset(path.name for path in copy.iterdir())
    return Undisturbed(job.read(copy / job.out), names, int(outcome.text), seconds)


def disturb(title: str, fault: Fault, n_tries: int | None, jobs: Sequence[Job] = JOBS) -> Kind:
    """Disturb jobs, do each again, and compare; as often as a job has steps, where no number is given."""

    def try_all(folder: Path, share: float) -> Iterator[Tally]:
        for job in jobs:
            tally, whole = Tally(title, job.name), run_undisturbed(job, folder)
            for number in spread(n_tries or whole.n_steps, share / job.cost):
                draw = random.Random(f"{title} {job.name} {number}")
                this = Try(job, fresh(folder, job), whole, number, draw)
                old = read_files(this.copy / "first")
                new = whole.result if job.out == "first" else old
                before = job.read(this.copy / job.out) if job.is_atomic else {}
                problem = fault(this) or find_loss(this.copy, old, new) or find_half(this, before)
                tally.add(f"number {number}", *this.finish(problem))
            yield tally

    return try_all


def find_loss(copy: Path, old: Result, new: Result) -> str:
    """What is wrong with the dataset `first`, which is the old or the new one at every moment."""
    places = [read_files(copy / name) for name in ("first", ".first.replaced")]
    is_there = any(wanted.items() <= place.items() for place in places for wanted in (old, new))
    return "" if is_there else "a dataset is lost"


def find_half(this: Try, before: Result) -> str:
    """The first file of an output that is neither the old nor the new one."""
    now = this.job.read(this.copy / this.job.out) if this.job.is_atomic else {}
    half = [
        name
        for name, content in now.items()
        if content not in (before.get(name), this.whole.result.get(name))
    ]
    lost = sorted(before.keys() - now.keys())
    return f"half a file: {half}" if half else f"lost: {lost}" if lost else ""


def kill_at_step(this: Try) -> str:
    """Kill a job before one of its changes to the disk."""
    return end(this, child.start(lambda: child.count_steps(this.work, this.copy, this.number + 1)))


def kill_in_write(this: Try) -> str:
    """Let the kernel kill a job in the system call that writes a chosen byte of any file."""
    return end(this, child.start(partial(work_with_limit, this, is_fatal=True)))


def kill_at_random(this: Try) -> str:
    """Kill a job after a random time, up to three times in a row."""
    problem = ""
    for _ in range(this.draw.randint(1, 3)):
        process = start_and_wait(this)
        os.kill(process.process, signal.SIGKILL)
        problem = problem or end(this, process)
    return problem


def kill_member(this: Try) -> str:
    """Kill one of the processes that a job has started, after a random time."""
    process = start_and_wait(this)
    members = child.list_group(process.process)[:-1]
    if members:
        # It may have ended since.
        with suppress(ProcessLookupError):
            os.kill(this.draw.choice(members), signal.SIGKILL)
    if this.job.dies_together:
        child.kill_group(process.process)
    return end(this, process)


def start_and_wait(this: Try) -> child.Child:
    """Start a job, and wait for a random part of the time that it takes."""
    process = child.start(this.work)
    time.sleep(this.draw.uniform(0, this.whole.seconds))
    return process


def end(this: Try, process: child.Child) -> str:
    """Wait for a job that was disturbed, and for the processes that it had started; says what is wrong."""
    outcome = child.wait(process)
    if this.job.dies_together:
        # Whoever killed the first process kills the others, too.
        child.kill_group(process.process)
    if outcome.ending in ("traceback", "hung"):
        return f"{outcome.ending}: {outcome.text}"
    return "processes left behind" if child.outlives(process.process) else ""


def fill_disk(this: Try) -> str:
    """Let no file grow beyond a random size."""
    outcome = child.run(partial(work_with_limit, this, is_fatal=False))
    return "" if outcome.is_orderly else f"with a full disk: {outcome.ending} {outcome.text}"


def work_with_limit(this: Try, *, is_fatal: bool) -> object:
    """Do a job while no file can grow beyond a random size; a write beyond it fails, or kills."""
    size = this.draw.randrange(this.whole.largest)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if is_fatal else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return this.work()


def meet_rival(this: Try) -> str:
    """Start a job twice at the same time."""
    first = child.start(this.work)
    time.sleep(this.draw.uniform(0, this.whole.seconds / 2))
    outcomes = [child.wait(rival) for rival in (child.start(this.work), first)]
    return "; ".join(f"in the race: {end.ending} {end.text}" for end in outcomes if not end.is_orderly)


KINDS: dict[str, Kind] = {
    "steps": disturb("killed before a file operation", kill_at_step, None),
    "writes": disturb("killed in a write", kill_in_write, 15),
    "kills": disturb("killed at a random time", kill_at_random, 30),
    "members": disturb("one of its processes killed", kill_member, 45, IN_SEVERAL_PROCESSES),
    "disks": disturb("full disk", fill_disk, 15),
    "rivals": disturb("two writers", meet_rival, 12),
}
