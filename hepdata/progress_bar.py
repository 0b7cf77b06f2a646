"""Progress on standard error: a bar in a terminal or notebook, lines elsewhere."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hepdata.console import SafeConsole
from hepdata.progress_lines import Heartbeat, ProgressLines

console = SafeConsole(stderr=True)


class ProgressBar:
    """A `hepdata.progress.Progress` that shows completed steps, speed and remaining time."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._lines: ProgressLines | None = None
        self._heartbeat: Heartbeat | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        """Draw the bar; if that is impossible, write lines instead."""
        self.finish()
        if not _can_draw():
            self._lines = ProgressLines(
                description, total, unit, done, clock=time.monotonic, write=self.announce
            )
            self._heartbeat = Heartbeat(self._lines.tick)
            return
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(unit),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._bar.start()
        self._task = self._bar.add_task(description, total=total, completed=done, note="")

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Move the bar, or count."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=steps, note=note)
        elif self._lines is not None:
            self._lines.advance(steps, note)

    def announce(self, line: str) -> None:
        """Print a line; a bar that is drawn stays below it."""
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    def finish(self) -> None:
        """Stop drawing; the last state stays on the screen."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = self._lines = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _can_draw() -> bool:
    """Whether a bar can be drawn: in a terminal, or in a notebook with ipywidgets."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return sys.stderr.isatty()


class _Rate(TextColumn):
    def __init__(self, unit: str) -> None:
        super().__init__("")
        self.unit = unit

    def render(self, task: Task) -> object:  # type: ignore[override]
        from rich.text import Text

        return Text(f"{task.speed:.3g} {self.unit}s/s" if task.speed else f"– {self.unit}s/s")
