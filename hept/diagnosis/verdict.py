"""One line of a diagnosis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "wrong", "slow", "skipped"]


@dataclass(frozen=True)
class Verdict:
    """What was looked at, and what was found.

    Attributes:
        name: What was looked at.
        status: "slow" where ours should be faster, "skipped" where this machine has nothing to look at.
        text: What was found, in a line.
        figures: The numbers behind it, by name.
    """

    name: str
    status: Status
    text: str
    figures: Mapping[str, float | str] = field(default_factory=dict)


def judge(name: str, is_right: bool, text: str, figures: Mapping[str, float | str] | None = None) -> Verdict:
    """A verdict on an error or difference."""
    return Verdict(name, "ok" if is_right else "wrong", text, figures or {})


def judge_speed(name: str, is_fast: bool, text: str, figures: Mapping[str, float | str]) -> Verdict:
    """A verdict on time or memory; a missed goal is "slow", not wrong, since the machine may be busy."""
    return Verdict(name, "ok" if is_fast else "slow", text, figures)


def compare_losses(found: Sequence[float], expected: Sequence[float]) -> float:
    """The largest relative difference; infinite if a value is not finite."""
    errors = [abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True)]
    return max(errors) if all(map(math.isfinite, errors)) else math.inf


def skip(name: str, why: str) -> Verdict:
    """A verdict on something that this machine does not have."""
    return Verdict(name, "skipped", why)
