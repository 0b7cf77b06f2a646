"""Timing several pieces of work in turns, so that a temporary slowdown of the machine affects all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one piece of work.

    Attributes:
        wall: Median over the rounds.
        cpu: Median CPU time of all threads of this process.
    """

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{1e3 * self.wall:.3g} ms (CPU {1e3 * self.cpu:.3g})"


def time_in_turns(works: Mapping[str, Callable[[], object]], *, rounds: int = 9) -> dict[str, Timing]:
    """Medians over rounds in which every work runs once, in the given order, after one warm-up round."""
    walls: dict[str, list[float]] = {name: [] for name in works}
    cpus: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            work()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number:
                walls[name].append(wall)
                cpus[name].append(cpu)
    return {name: Timing(statistics.median(walls[name]), statistics.median(cpus[name])) for name in works}
