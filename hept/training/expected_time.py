"""How long a run will take, told after its first steps: measured steps enter, one line leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hepdata.progress import format_duration

# The first step also pays for what is set up once, so it is not measured.
STEPS_BEFORE = 1
STEPS_MEASURED = 3


@dataclass(frozen=True)
class RunLength:
    """What a run has before it.

    Attributes:
        n_steps: Optimiser steps still to be made.
        steps_per_epoch: Of them in an epoch.
        max_minutes: The run ends after the epoch in which so much time is over.
    """

    n_steps: int
    steps_per_epoch: int
    max_minutes: float | None = None


def expect_seconds(length: RunLength, seconds_per_step: float) -> float:
    """Time of the steps of a run; validation, which is not known yet, comes on top."""
    n_steps = length.n_steps
    if length.max_minutes is not None:
        seconds_per_epoch = max(length.steps_per_epoch * seconds_per_step, 1e-9)
        n_epochs = math.ceil(60 * length.max_minutes / seconds_per_epoch)
        n_steps = min(n_steps, n_epochs * length.steps_per_epoch)
    return n_steps * seconds_per_step


def describe_expected_time(length: RunLength, seconds_per_step: float) -> str:
    """The line for the user."""
    total = format_duration(expect_seconds(length, seconds_per_step))
    limit = f", stopped after {length.max_minutes:g} min at the end of an epoch" if length.max_minutes else ""
    return (
        f"expected time: about {total} and validation "
        f"({length.n_steps:,} steps of {format_duration(seconds_per_step)}{limit})"
    )
