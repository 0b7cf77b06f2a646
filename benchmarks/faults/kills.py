"""Jobs that are killed, find the disk full or meet a rival: the same job again gives the same bytes."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import child
from benchmarks.faults.jobs import JOBS, Job, result_of
from benchmarks.faults.tally import Tally

Content = dict[str, bytes]


def content(folder: Path) -> Content:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def fresh(folder: Path) -> Path:
    """A copy of what jobs start from."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder / "start", copy))


def whole_run(job: Job, name: str, folder: Path) -> tuple[Content, set[str], int, float]:
    """Files of the undisturbed result, names beside it, number of steps, seconds."""
    copy = fresh(folder)
    begun = time.monotonic()
    outcome = child.run(lambda: child.count_steps(partial(job, copy), str(copy)))
    seconds = time.monotonic() - begun
    if outcome.ending != "done":
        raise SystemExit(f"{name} fails undisturbed: {outcome.text}")
    return content(result_of(name, copy)), {path.name for path in copy.iterdir()}, int(outcome.text), seconds


def finish(job: Job, name: str, copy: Path, expected: Content, names: set[str]) -> tuple[child.Outcome, str]:
    """Run the job again after a fault, and compare."""
    outcome = child.run(lambda: job(copy) and "")
    if outcome.ending != "done":
        return child.Outcome("traceback", f"the rerun: {outcome.text}"), "rerun"
    # A finished convert or merge is not run again: the mark that a kill left is no file of the dataset.
    found = {key: value for key, value in content(result_of(name, copy)).items() if key != "build.json"}
    left = {path.name for path in copy.iterdir() if not path.name.endswith(".lock")} - names
    problem = "other bytes" if found != expected else f"left {sorted(left)}" if left else ""
    return outcome, problem


def old_or_new_is_whole(name: str, copy: Path, old: Content, new: Content) -> bool:
    """Whether a replacement that was killed has lost nothing."""
    if name != "overwrite":
        return True
    places = [content(copy / "first"), content(copy / ".first.replaced")]
    return any(part.items() <= place.items() for place in places for part in (old, new))


def kill_at_steps(folder: Path, share: float) -> list[Tally]:
    """Kill every job before each of its changes to the disk."""
    tallies = []
    for name, job in JOBS.items():
        tally = Tally(f"killed before a file operation: {name}")
        new, names, n_steps, _ = whole_run(job, name, folder)
        for step in spread(n_steps, share):
            copy = fresh(folder)
            old = content(copy / "first")
            child.run(partial(child.count_steps, partial(job, copy), str(copy), step))
            is_kept = old_or_new_is_whole(name, copy, old, new)
            outcome, problem = finish(job, name, copy, new, names)
            tally.add(f"step {step}", outcome, problem if is_kept else "the old dataset is lost")
        tallies.append(tally)
    return tallies


def kill_at_random(folder: Path, share: float) -> list[Tally]:
    """Kill every job after a random time, up to three times in a row."""
    tallies = []
    draw = random.Random(1)
    for name, job in JOBS.items():
        tally = Tally(f"killed at a random time: {name}")
        new, names, _, seconds = whole_run(job, name, folder)
        for number in range(max(int(60 * share), 1)):
            copy = fresh(folder)
            for _ in range(draw.randint(1, 3)):
                process, pipe = child.start(lambda copy=copy, job=job: job(copy) and "")
                time.sleep(draw.uniform(0, seconds))
                os.kill(process, signal.SIGKILL)
                child.wait(process, pipe)
            tally.add(f"number {number}", *finish(job, name, copy, new, names))
        tallies.append(tally)
    return tallies


def fill_disk(folder: Path, share: float) -> list[Tally]:
    """Let no file grow beyond a random size, then run the job again without the limit."""
    tallies = []
    draw = random.Random(2)

    def limited(job: Job, copy: Path, size: int) -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return job(copy) and ""

    for name, job in JOBS.items():
        tally = Tally(f"full disk: {name}")
        new, names, _, _ = whole_run(job, name, folder)
        largest = max(map(len, new.values()))
        for number in range(max(int(30 * share), 1)):
            copy = fresh(folder)
            old = content(copy / "first")
            first = child.run(partial(limited, job, copy, draw.randrange(largest + 1)))
            is_kept = old_or_new_is_whole(name, copy, old, new)
            outcome, problem = finish(job, name, copy, new, names)
            if first.ending not in ("done", "refused"):
                outcome, problem = first, "while the disk was full"
            tally.add(f"number {number}", outcome, problem if is_kept else "the old dataset is lost")
        tallies.append(tally)
    return tallies


def meet_rivals(folder: Path, share: float) -> list[Tally]:
    """Start every job twice at the same time."""
    tallies = []
    draw = random.Random(3)
    for name, job in JOBS.items():
        tally = Tally(f"two writers: {name}")
        new, names, _, seconds = whole_run(job, name, folder)
        for number in range(max(int(20 * share), 1)):
            copy = fresh(folder)
            rivals = []
            for _ in range(2):
                rivals.append(child.start(lambda copy=copy, job=job: job(copy) and ""))
                time.sleep(draw.uniform(0, seconds / 2))
            endings = [child.wait(*rival) for rival in rivals]
            outcome, problem = finish(job, name, copy, new, names)
            bad = [end for end in endings if end.ending not in ("done", "refused")]
            tally.add(f"number {number}", bad[0] if bad else outcome, "in the race" if bad else problem)
        tallies.append(tally)
    return tallies


def spread(n_steps: int, share: float) -> Iterator[int]:
    """Steps 1 … n_steps, or a share of them."""
    stride = max(round(1 / share), 1)
    return iter(range(1, n_steps + 1, stride))


KINDS: dict[str, Callable[[Path, float], list[Tally]]] = {
    "steps": kill_at_steps,
    "kills": kill_at_random,
    "disks": fill_disk,
    "rivals": meet_rivals,
}
