"""Progress of long work: functions report it to a listener, which may show it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol


class Progress(Protocol):
    """A listener of one piece of long work."""

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        """The work begins: `total` steps, each a `unit` ("event", "cloud", …), `done` of them completed."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """`steps` more are completed; `note` is a short remark (a loss, a count)."""

    def announce(self, line: str) -> None:
        """Show a line that stays on the screen."""

    def finish(self) -> None:
        """The work has ended, successfully or not."""


class Silent:
    """A listener that shows nothing."""

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        """Ignore the beginning."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Ignore the step."""

    def announce(self, line: str) -> None:
        """Ignore the line."""

    def finish(self) -> None:
        """Ignore the end."""


# The type of the parameter `progress` of public functions; see `listen`.
ProgressChoice = Progress | bool | None


@contextmanager
def listen(choice: ProgressChoice) -> Iterator[Progress]:
    """The listener for a value of `progress`; its bar ends with the block.

    Args:
        choice: True draws a bar, False draws none, a listener receives every call. None draws a bar in
            interactive sessions (a notebook or a Python prompt), but not in a script.
    """
    if choice is None:
        # Python, IPython and Jupyter set the prompt in interactive sessions only.
        choice = hasattr(sys, "ps1")
    if choice is True:
        # Imported here because it takes time and most programs draw nothing.
        from hepdata.progress_bar import ProgressBar

        with ProgressBar() as bar:
            yield bar
    else:
        yield Silent() if choice is False else choice


@contextmanager
def counting(listener: Progress, description: str, total: int, unit: str) -> Iterator[None]:
    """Tell a listener of a piece of work that begins and ends with the block; see `Progress.start`."""
    listener.start(description, total, unit)
    try:
        yield
    finally:
        listener.finish()


def format_duration(seconds: float) -> str:
    """A duration in its two largest units.

    >>> format_duration(277 * 3600)
    '11 d 13 h'
    >>> format_duration(42.3)
    '42 s'
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for (unit, size), (below, smaller) in pairwise((("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"
