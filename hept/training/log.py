"""What a run tells while it runs: rows for scripts, scalars for TensorBoard, notes for the progress bar."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tensorboardX import SummaryWriter

from hepdata.progress import Progress
from hept.run_folder import RunFolder

_Item = TypeVar("_Item")


class TrainingLog:
    """The account of a run.

    Args:
        folder: Where rows and scalars go.
        progress: Listener.
        is_quiet: Whether to say nothing, as all processes but the first do.
    """

    def __init__(self, folder: RunFolder, progress: Progress, *, is_quiet: bool) -> None:
        self.folder, self.progress, self.is_quiet = folder, progress, is_quiet
        self._writer = None if is_quiet else SummaryWriter(str(folder.path / "tensorboard"))
        self._waited = 0.0
        self._points = 0
        self._begun = self._epoch_begun = time.perf_counter()
        self._metric_note = ""

    def start(self, n_steps: int, *, done: int) -> None:
        """The run begins, at step `done`."""
        self._begun = self._epoch_begun = time.perf_counter()
        if not self.is_quiet:
            self.progress.start("training", n_steps, "step")
            if done:
                self.progress.advance(done)

    def time_waiting(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """Pass batches on, adding up the time spent waiting for them."""
        iterator = iter(batches)
        while True:
            begun = time.perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                return
            self._waited += time.perf_counter() - begun
            yield item

    def step(self, step: int, epoch: int, loss: float, lr: float, grad_norm: float, n_points: int) -> None:
        """One optimiser step was made."""
        self._points += n_points
        if self.is_quiet or self._writer is None:
            return
        self.folder.append(
            "steps", {"step": step, "epoch": epoch, "loss": loss, "lr": lr, "grad_norm": grad_norm}
        )
        self._writer.add_scalar("train/loss", loss, step)
        self._writer.add_scalar("train/lr", lr, step)
        self._writer.add_scalar("train/grad_norm", grad_norm, step)
        elapsed = max(time.perf_counter() - self._epoch_begun, 1e-9)
        note = f"loss {loss:.4g}{self._metric_note}, {self._points / elapsed:,.0f} points/s"
        self.progress.advance(1, f"{note}, wait for data {100 * self._waited / elapsed:.0f} %")

    def epoch(self, step: int, epoch: int, train_loss: float, metrics: dict[str, float]) -> None:
        """An epoch has ended; `metrics` is empty where it was not validated."""
        elapsed = max(time.perf_counter() - self._epoch_begun, 1e-9)
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
                    self._writer.add_scalar(f"epoch/{name}", number, step)
            self._writer.flush()
        self._waited, self._points, self._epoch_begun = 0.0, 0, time.perf_counter()

    def finish(self) -> None:
        """The run has ended, well or not."""
        if not self.is_quiet and self._writer is not None:
            self._writer.close()
            self.progress.finish()
