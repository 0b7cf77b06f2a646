"""One measured ratio, and how to time its two sides."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Ratio:
    """A figure of merit: `value` against `goal`.

    Attributes:
        name: What was measured, at which size.
        value: The measured ratio.
        goal: Its bound.
        sense: Whether the goal is a lower ("at least") or an upper bound ("at most").
        detail: The two absolute numbers, as text.
    """

    name: str
    value: float
    goal: float
    sense: Literal["at least", "at most"]
    detail: str

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.sense == "at least" else self.value <= self.goal


def seconds(work: Callable[[], object], *, repeats: int = 3, warm_up: bool = True) -> float:
    """Median wall time of `work`, after one warm-up."""
    if warm_up:
        work()
    times = []
    for _ in range(repeats):
        gc.collect()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)
