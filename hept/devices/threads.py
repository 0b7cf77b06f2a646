"""Threads on a CPU: how many a run uses, and work that is cut into large pieces for them.

Torch's own threads share every operator and meet at its end. Where another process runs on one of the cores,
each of these meetings may last milliseconds; so a run takes as many threads as there are idle cores, small
operators run on one (`use_threads(1)`), and a thread that has whole pieces to itself waits once
(`share_out`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from hepdata.errors import InputError

SECONDS_OF_LOOKING = 0.25
# Load of all cores together that is too little to give up a thread for.
TOLERATED_LOAD = 0.25


def choose_threads(n_threads: int | None = None, *, reserved: int = 0, processes: int = 1) -> int:
    """How many threads a process should use.

    The argument decides, else `HEPT_THREADS`, else `OMP_NUM_THREADS`, else the number of cores that are idle
    now, of those that affinity and cgroup allow.

    Args:
        n_threads: The user's choice.
        reserved: Cores to leave to other processes of this run, such as loader workers.
        processes: Processes on this machine that share the idle cores.

    Raises:
        InputError: A number below 1, or a variable that is not a number.
    """
    if n_threads is not None:
        return _check(n_threads, "`threads`")
    for name in ("HEPT_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name):
            # OMP_NUM_THREADS may list a number for each level of nesting.
            return _check(os.environ[name].split(",")[0], name)
    return max(1, (count_idle_cores() - reserved) // processes)


def count_idle_cores() -> int:
    """Cores that this process may use and others leave idle at the moment; at least 1."""
    import joblib
    import psutil

    busy = [percent / 100 for percent in psutil.cpu_percent(SECONDS_OF_LOOKING, percpu=True)]
    if hasattr(os, "sched_getaffinity"):
        # Some containers number their cores anew.
        busy = [busy[core] for core in os.sched_getaffinity(0) if core < len(busy)] or busy
    return count_idle(busy, allowed=int(joblib.cpu_count()))


def count_idle(busy: Sequence[float], *, allowed: int) -> int:
    """How many threads fit beside the load `busy` (0 … 1) of each core, at most `allowed`, at least 1."""
    idle = sum(1 - share for share in busy)
    return max(1, min(allowed, math.floor(idle + TOLERATED_LOAD)))


@contextmanager
def use_threads(n_threads: int) -> Iterator[None]:
    """Let torch use so many threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def count_workers(n_pieces: int, device: torch.device) -> int:
    """In how many threads `share_out` does so many pieces."""
    n_threads = torch.get_num_threads() if device.type == "cpu" else 1
    return max(1, min(n_threads, n_pieces))


def share_out(work: Callable[[Iterable[int]], None], n_pieces: int, device: torch.device) -> None:
    """Do the pieces 0 … n−1, on a CPU in as many threads as torch would use, elsewhere in this one.

    Args:
        work: Does the pieces that it is given; called once in each thread. Pieces are given out as they are
            asked for, so that a thread which is held up leaves more to the others.
        n_pieces: How many pieces.
        device: Where the work happens.
    """
    n_workers = count_workers(n_pieces, device)
    if n_workers == 1:
        work(range(n_pieces))
        return
    n_threads = torch.get_num_threads()
    is_inference, has_grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    pieces = iter(range(n_pieces))

    def do_some(_: int) -> None:
        # All three are settings of a thread, and end with it.
        torch.set_num_threads(n_threads // n_workers)
        with torch.inference_mode(is_inference), torch.set_grad_enabled(has_grad):
            work(pieces)

    try:
        with ThreadPoolExecutor(n_workers) as pool:
            list(pool.map(do_some, range(n_workers)))
    finally:
        # What threads that are still to come begin with.
        torch.set_num_threads(n_threads)


def _check(value: int | str, name: str) -> int:
    if not str(value).strip().isdigit() or int(value) < 1:
        raise InputError(
            name,
            found=f"{value!r}",
            expected="a number of threads, 1 or more",
            remedy=f"set {name} to 1, for example, or leave it out",
        )
    return int(value)
