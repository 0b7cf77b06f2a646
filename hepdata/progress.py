"""How long work reports itself: the library calls these methods, the command line draws the bar."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener of one piece of long work."""

    def start(self, description: str, total: int, unit: str) -> None:
        """The work begins: `total` steps, each a `unit` ("event", "cloud", "step")."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """`steps` more are done; `note` is a short live remark (a loss, a count)."""

    def finish(self) -> None:
        """The work has ended, well or not."""


class Silent:
    """A listener that shows nothing."""

    def start(self, description: str, total: int, unit: str) -> None:
        """Ignore the beginning."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Ignore the step."""

    def finish(self) -> None:
        """Ignore the end."""
