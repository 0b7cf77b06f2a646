"""How long work reports itself: functions call these methods, and a listener shows them or does not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol


class Progress(Protocol):
    """A listener of one piece of long work."""

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        """The work begins: `total` steps, each a `unit` ("event", "cloud", …), of which `done` are made."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """`steps` more are done; `note` is a short live remark (a loss, a count)."""

    def announce(self, line: str) -> None:
        """Something that the user should read, and that stays on the screen."""

    def finish(self) -> None:
        """The work has ended, well or not."""


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


# What a user may say about progress; see `listen`.
ProgressChoice = Progress | bool | None


@contextmanager
def listen(choice: ProgressChoice) -> Iterator[Progress]:
    """The listener that a user's choice stands for; its bar ends with the block.

    Args:
        choice: True draws a bar, False draws none, a listener is told of everything. None draws a bar where
            somebody is looking: in a notebook or at a Python prompt, but not in a script.
    """
    if choice is None:
        # Python, IPython and Jupyter set the prompt in interactive sessions only.
        choice = hasattr(sys, "ps1")
    if choice is True:
        # Imported here: most programs draw nothing.
        from hepdata.progress_bar import ProgressBar

        with ProgressBar() as bar:
            yield bar
    else:
        yield Silent() if choice is False else choice


def format_duration(seconds: float) -> str:
    """A time in the two largest units that matter.

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
