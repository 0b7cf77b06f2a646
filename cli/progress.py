"""The progress bar: what is done, how fast, and how long it will still take."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
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

console = Console(stderr=True)


class ProgressBar:
    """A `hepdata.progress.Progress` drawn on standard error; plain lines where that is not a terminal."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._unit = ""
        self._description = ""
        self._total = 0
        self._done = 0
        self._begun = 0.0
        self._next_line = 0.1

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def start(self, description: str, total: int, unit: str) -> None:
        """Draw the empty bar."""
        self.finish()
        self._description, self._total, self._unit, self._done = description, total, unit, 0
        self._begun, self._next_line = time.perf_counter(), 0.1
        if not sys.stderr.isatty():
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
        self._task = self._bar.add_task(description, total=total, note="")

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Move the bar; without a terminal, print a line at every tenth of the way."""
        self._done += steps
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=steps, note=note)
        elif self._total and self._done / self._total >= self._next_line - 1e-9:
            self._next_line = self._done / self._total + 0.1
            rate = self._done / max(time.perf_counter() - self._begun, 1e-9)
            left = (self._total - self._done) / rate
            console.print(
                f"{self._description}: {self._done}/{self._total}, {rate:.3g} {self._unit}s/s, "
                f"{left:.0f} s left {note}".rstrip(),
                highlight=False,
                soft_wrap=True,
            )

    def finish(self) -> None:
        """Stop drawing; the last state stays on the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Rate(TextColumn):
    def __init__(self, unit: str) -> None:
        super().__init__("")
        self.unit = unit

    def render(self, task: Task) -> object:  # type: ignore[override]
        from rich.text import Text

        return Text(f"{task.speed:.3g} {self.unit}s/s" if task.speed else f"– {self.unit}s/s")
