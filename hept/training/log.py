"""Output of a run in progress: rows for scripts, scalars for TensorBoard, notes for the progress bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from hepdata.progress import Progress
from hept.runs.folder import RunFolder
from hept.training.expected_time import STEPS_BEFORE, STEPS_MEASURED, RunLength, describe_expected_time
from hept.training.loggers import Logger
from hept.training.scalars import ScalarFile

_Item = TypeVar("_Item")


class TrainingLog:
    """Writes and shows the progress of a run.

    Args:
        folder: Where rows and scalars go.
        progress: Listener.
        is_quiet: Whether to say nothing, as all processes but the first do.
        logger: Takes in the same figures; None makes TensorBoard's file.
        clock: Seconds since some moment.
    """

    def __init__(
        self,
        folder: RunFolder,
        progress: Progress,
        *,
        is_quiet: bool,
        logger: Logger | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.folder, self.progress, self.is_quiet = folder, progress, is_quiet
        self._clock = clock
        self._writer = None if is_quiet else logger or ScalarFile(folder.path / "tensorboard")
        self._waited = 0.0
        self._points = 0
        self._epoch_begun = self._measured_from = clock()
        self._metric_note = ""
        self._length = RunLength(0)
        self._steps_seen = 0

    def start(self, length: RunLength, *, done: int) -> None:
        """The run begins, at step `done`."""
        self._epoch_begun = self._clock()
        self._length = length
        if not self.is_quiet:
            self.progress.start("training", done + length.n_steps, "step", done=done)

    def time_waiting(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """Pass batches on, adding up the time spent waiting for them."""
        iterator = iter(batches)
        while True:
            begun = self._clock()
            try:
                item = next(iterator)
            except StopIteration:
                return
            self._waited += self._clock() - begun
            yield item

    def step(self, step: int, epoch: int, loss: float, lr: float, grad_norm: float, n_points: int) -> None:
        """One optimiser step was made."""
        self._points += n_points
        if self.is_quiet or self._writer is None:
            return
        self.folder.append(
            "steps", {"step": step, "epoch": epoch, "loss": loss, "lr": lr, "grad_norm": grad_norm}
        )
        self._writer.add("train/loss", loss, step)
        self._writer.add("train/lr", lr, step)
        if math.isfinite(grad_norm):
            self._writer.add("train/grad_norm", grad_norm, step)
        elapsed = max(self._clock() - self._epoch_begun, 1e-9)
        note = f"loss {loss:.4g}{self._metric_note}, {self._points / elapsed:,.0f} points/s"
        self.progress.advance(1, f"{note}, wait for data {100 * self._waited / elapsed:.0f} %")
        self._expect()

    def _expect(self) -> None:
        """Announce the expected time as soon as enough steps are measured."""
        self._steps_seen += 1
        if self._steps_seen == STEPS_BEFORE:
            self._measured_from = self._clock()
        elif self._steps_seen == STEPS_BEFORE + STEPS_MEASURED:
            seconds = (self._clock() - self._measured_from) / STEPS_MEASURED
            self.progress.announce(describe_expected_time(self._length, seconds))

    def epoch(self, step: int, epoch: int, train_loss: float, metrics: dict[str, float]) -> None:
        """An epoch has ended; `metrics` is empty where it was not validated."""
        elapsed = max(self._clock() - self._epoch_begun, 1e-9)
        row = {
            "epoch": epoch,
            "step": step,
            "train_loss": train_loss,
            **{f"valid_{name}": value for name, value in metrics.items()},
            "points_per_s": self._points / elapsed,
            "wait_for_data": self._waited / elapsed,
            "seconds": elapsed,
        }
        if not self.is_quiet and self._writer is not None:
            if metrics:
                self.folder.append("metrics", row)
                name, value = next((n, v) for n, v in metrics.items() if n != "loss")
                self._metric_note = f", {name} {value:.3f}"
            for name, number in row.items():
                if name not in ("epoch", "step"):
                    self._writer.add(f"epoch/{name}", number, step)
            self._writer.flush()
        self._waited, self._points, self._epoch_begun = 0.0, 0, self._clock()

    def finish(self) -> None:
        """The run has ended, successfully or not."""
        if not self.is_quiet and self._writer is not None:
            self.progress.finish()
            self._writer.close()
