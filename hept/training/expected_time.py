"""Expected time of a run after its first steps: measured steps enter, one line leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hepdata.progress import format_duration

# The first steps include one-time work, so they are not measured.
STEPS_BEFORE = 1
STEPS_MEASURED = 3


@dataclass(frozen=True)
class RunLength:
    """Remaining length of a run.

    Attributes:
        n_steps: Optimiser steps still to be made.
        max_minutes: The run ends after so much time.
    """

    n_steps: int
    max_minutes: float | None = None


def expect_seconds(length: RunLength, seconds_per_step: float) -> float:
    """Expected seconds of the remaining steps. Validation is not included: its duration is not known yet."""
    limit = math.inf if length.max_minutes is None else 60 * length.max_minutes
    return min(length.n_steps * seconds_per_step, limit)


def describe_expected_time(length: RunLength, seconds_per_step: float) -> str:
    """The line for the user."""
    total = format_duration(expect_seconds(length, seconds_per_step))
    limit = f", stopped after {length.max_minutes:g} min" if length.max_minutes else ""
    return (
        f"expected time: about {total} and validation "
        f"({length.n_steps:,} steps of {format_duration(seconds_per_step)}{limit})"
    )
