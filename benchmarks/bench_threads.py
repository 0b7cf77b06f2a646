"""The number of threads that the package chooses, against the best fixed number, on an idle or busy machine.

Loss, forward pass, training step and demo are timed with 0, 1 and 2 busy processes in parallel; on an idle
machine also against the defaults of OpenMP, whose threads spin for milliseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import bench_loss, bench_model
from benchmarks.ratio import Ratio
from benchmarks.turns import time_in_turns
from hepdata.openmp import SPIN
from hept.devices.threads import choose_threads, use_threads

N_POINTS = 6_000
LOADS = (0, 1, 2)
GOAL = 1.3
# Equal within the variation between two measurements.
GOAL_IDLE = 1.1
# The default of libgomp.
SPIN_BY_DEFAULT = {"GOMP_SPINCOUNT": "300000"}
DEMO = ("--events", "20", "--epochs", "3")
VARIABLES = {*SPIN, "HEPT_THREADS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY"}


def run() -> list[Ratio]:
    """Every load, then the comparison with the defaults of OpenMP."""
    for n in (bench_model.WARM_UP, N_POINTS):
        bench_model.draw_cloud(n)
    cores = len(os.sched_getaffinity(0))
    ratios = []
    for n_busy in LOADS:
        with busy_processes(n_busy):
            times = time_in_process(cores)
            times["demo"] = time_demo(cores)
        ratios += [compare(name, n_busy, each) for name, each in times.items()]
    return ratios + compare_spinning(cores)


def compare(name: str, n_busy: int, times: dict[str, float]) -> Ratio:
    """The chosen number of threads against the best fixed one."""
    fixed = {threads: seconds for threads, seconds in times.items() if threads != "chosen"}
    detail = ", ".join(f"{threads}: {seconds:.3g} s" for threads, seconds in times.items())
    ratio = times["chosen"] / min(fixed.values())
    return Ratio(
        f"{name}, {n_busy} busy processes, chosen / best fixed threads", ratio, GOAL, "at most", detail
    )


def compare_spinning(cores: int) -> list[Ratio]:
    """Our limit on spinning against the default, on an idle machine, in alternating processes."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(3):
        for spin, seconds in ((SPIN, ours), (SPIN_BY_DEFAULT, theirs)):
            for name, times in time_in_process(cores, spin).items():
                seconds.setdefault(name, []).append(times[str(cores)])
    return [
        Ratio(
            f"{name}, idle, spinning limited / by default",
            min(ours[name]) / min(theirs[name]),
            GOAL_IDLE,
            "at most",
            f"{min(ours[name]):.3g} s / {min(theirs[name]):.3g} s, {cores} threads",
        )
        for name in ours
    ]


def time_in_process(cores: int, spin: dict[str, str] = SPIN) -> dict[str, dict[str, float]]:
    """Seconds by work and number of threads, in a new process, since OpenMP reads its settings only once."""
    code = f"from benchmarks.bench_threads import time_works; time_works({cores})"
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | spin, check=True, capture_output=True, text=True
    )
    times: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def time_works(cores: int) -> None:
    """Print medians of each work with each number of threads, in turns."""
    inputs = bench_loss.make_inputs()
    works: dict[str, Callable[[], object]] = {
        "loss": partial(bench_loss.ours, inputs),
        "forward": bench_model.prepare_ours(N_POINTS, False),
        "training step": bench_model.prepare_ours(N_POINTS, True),
    }
    times: dict[str, dict[str, float]] = {}
    for name, work in works.items():
        chosen = choose_threads()
        numbers = {"chosen": chosen} | {str(n): n for n in sorted({1, cores})}
        turns = {key: partial(work_with, n, work) for key, n in numbers.items()}
        times[name] = {key: timing.wall for key, timing in time_in_turns(turns, rounds=7).items()}
    print(json.dumps(times))


def work_with(n_threads: int, work: Callable[[], object]) -> None:
    """Run `work` on `n_threads` threads."""
    with use_threads(n_threads):
        work()


def time_demo(cores: int) -> dict[str, float]:
    """Seconds of a small `hept-train demo`, as a user starts it, by number of threads."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    choices = {"chosen": {}} | {str(n): {"HEPT_THREADS": str(n)} for n in sorted({1, cores})}
    times: dict[str, list[float]] = {}
    program = Path(sys.executable).with_name("hept-train")
    for _ in range(2):
        for key, choice in choices.items():
            with TemporaryDirectory() as folder:
                command = [program, "demo", Path(folder) / "demo", *DEMO]
                begun = time.perf_counter()
                subprocess.run(command, env=environment | choice, check=True, capture_output=True)
                times.setdefault(key, []).append(time.perf_counter() - begun)
    return {key: min(seconds) for key, seconds in times.items()}


@contextmanager
def busy_processes(n: int) -> Iterator[None]:
    """Keep `n` cores busy, as other users of a shared machine would."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
