"""Further figures of merit that a task asks for by name: what a model's answers are worth to an analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError, nearest_name
from hept.metrics.cleaning import Cleaning


class Figure(Protocol):
    """An account over the clouds of a split."""

    def add(self, columns: dict[str, NDArray[Any]], answer: NDArray[np.floating], /) -> None:
        """Take in one cloud: its stored columns, and the model's answer for each of its points."""

    def result(self) -> dict[str, float]:
        """The figures so far."""


# A task's own figures are added here by the module that defines them.
FIGURES: dict[str, Callable[[], Figure]] = {"cleaning": Cleaning}


def make_figures(names: Sequence[str]) -> list[Figure]:
    """Empty accounts of the figures that a target names.

    Raises:
        InputError: An unknown name.
    """
    for name in names:
        if name not in FIGURES:
            raise InputError(
                f"figure of merit {name!r}",
                found="no such figure",
                expected=f"one of {', '.join(FIGURES)}",
                remedy=f"{nearest_name(name, list(FIGURES))}, or import the module that adds it to FIGURES",
            )
    return [FIGURES[name]() for name in names]
