"""Wall time of work on a device, which runs asynchronously."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def read_clock(device: torch.device) -> float:
    """Clock time in seconds, read when the device has finished all queued work."""
    wait_for(device)
    return time.perf_counter()


def time_in_turns(
    works: Mapping[str, Callable[[], object]],
    device: torch.device,
    *,
    repeats: int,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, float]:
    """Median seconds of each work over rounds in which every work runs once, after one that warms caches.

    In turns, so that a slow moment of the machine affects all of them.

    Args:
        works: By name.
        device: On which they run.
        repeats: Rounds that count.
        before: What a work needs each time and is not timed, by the same names.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(repeats + 1):
        for name, work in works.items():
            if before and name in before:
                before[name]()
            begun = read_clock(device)
            work()
            if number:
                seconds[name].append(read_clock(device) - begun)
            else:
                wait_for(device)
    return {name: statistics.median(times) for name, times in seconds.items()}
