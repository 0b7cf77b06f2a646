"""Threads on a CPU: how many a run uses, and how work is divided into large pieces.

Torch's threads synchronise at the end of every operator. If another process occupies one of the cores, each
synchronisation may take milliseconds. Therefore a run uses as many threads as there are idle cores, small
operators run on one thread (`use_threads(1)`), and threads that process whole pieces synchronise only once
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
# Total load of all cores up to which no thread is given up.
TOLERATED_LOAD = 0.25


def choose_threads(n_threads: int | None = None, *, reserved: int = 0, processes: int = 1) -> int:
    """Number of threads that a process should use.

    The first that is set: the argument, `HEPT_THREADS`, `OMP_NUM_THREADS`; otherwise the number of currently
    idle cores, among those that affinity and cgroup allow.

    Args:
        n_threads: The user's choice.
        reserved: Cores left to other processes of this run, such as loader workers.
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
    """Number of cores that this process may use and that are idle now; at least 1."""
    import joblib
    import psutil

    busy = [percent / 100 for percent in psutil.cpu_percent(SECONDS_OF_LOOKING, percpu=True)]
    if hasattr(os, "sched_getaffinity"):
        # In some containers core numbers exceed the number of visible cores.
        busy = [busy[core] for core in os.sched_getaffinity(0) if core < len(busy)] or busy
    return count_idle(busy, allowed=int(joblib.cpu_count()))


def count_idle(busy: Sequence[float], *, allowed: int) -> int:
    """Number of threads for the idle part of the cores, given the load (0 … 1) of each; 1 … `allowed`."""
    idle = sum(1 - share for share in busy)
    return max(1, min(allowed, math.floor(idle + TOLERATED_LOAD)))


@contextmanager
def use_threads(n_threads: int) -> Iterator[None]:
    """Set torch's number of threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def count_workers(n_pieces: int, device: torch.device) -> int:
    """Number of threads that `share_out` uses for `n_pieces` pieces."""
    n_threads = torch.get_num_threads() if device.type == "cpu" else 1
    return max(1, min(n_threads, n_pieces))


def share_out(work: Callable[[Iterable[int]], None], n_pieces: int, device: torch.device) -> None:
    """Process the pieces 0 … n−1: on a CPU in as many threads as torch uses, elsewhere in this thread.

    Args:
        work: Processes the pieces of the iterator that it gets; called once in each thread. Threads take
            pieces on demand, so a delayed thread processes fewer.
        n_pieces: Number of pieces.
        device: Device of the data.
    """
    n_workers = count_workers(n_pieces, device)
    if n_workers == 1:
        work(range(n_pieces))
        return
    n_threads = torch.get_num_threads()
    is_inference, has_grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    pieces = iter(range(n_pieces))

    def do_some(_: int) -> None:
        # All three settings are thread-local.
        torch.set_num_threads(n_threads // n_workers)
        with torch.inference_mode(is_inference), torch.set_grad_enabled(has_grad):
            work(pieces)

    try:
        with ThreadPoolExecutor(n_workers) as pool:
            list(pool.map(do_some, range(n_workers)))
    finally:
        # The last value set is also the default of new threads.
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
