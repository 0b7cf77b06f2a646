"""Steps that are queued on the device, whose losses and norms are read when the device has finished them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from hept.devices.transfer import HostCopy


@dataclass(frozen=True)
class QueuedStep:
    """A step whose figures are still on the device.

    Attributes:
        step: Its number, counted from 1.
        epoch: Counted from 1.
        rate: Learning rate.
        clouds: Numbers of the events and sectors of its batches, on the host.
        n_points: Of all batches and processes.
        figures: (processes, batches + 4): shares of the loss, norm of the gradient, number of a signal,
            whether it is time to save, and the part of the run's time that is over.
        rank: Of this process.
    """

    step: int
    epoch: int
    rate: float
    clouds: list[tuple[Tensor, Tensor]]
    n_points: int
    figures: HostCopy
    rank: int

    def name_clouds(self, batch: int) -> str:
        """The clouds of a batch, for messages."""
        events, sectors = (each.tolist() for each in self.clouds[batch])
        return ", ".join(f"event {e} sector {s}" for e, s in zip(events, sectors, strict=True))

    def read(self) -> StepFigures:
        """Wait for the device."""
        rows: list[list[float]] = self.figures.read().tolist()
        n_batches = len(self.clouds)
        return StepFigures(
            shares=[row[:n_batches] for row in rows],
            norm=rows[self.rank][n_batches],
            signal=int(max(row[n_batches + 1] for row in rows)),
            is_due=any(row[n_batches + 2] for row in rows),
            used=max(row[n_batches + 3] for row in rows),
        )


@dataclass(frozen=True)
class StepFigures:
    """Results of a step.

    Attributes:
        shares: Of the loss, by process and batch.
        norm: Of the gradient, the same in all processes.
        signal: Number of a signal that one of the processes has received; 0 for none.
        is_due: Whether one of the processes asks for a saved state.
        used: Part of the run's time that is over, the same in all processes; 0 without a limit.
    """

    shares: list[list[float]]
    norm: float
    signal: int
    is_due: bool
    used: float

    @property
    def loss(self) -> float:
        """Of the whole step."""
        return sum(sum(row) for row in self.shares)

    def find_bad(self, limit: float) -> int | None:
        """The first batch of a process with a loss that is not finite, or above the limit."""
        for batch, shares in enumerate(zip(*self.shares, strict=True)):
            if any(is_bad(share, limit) for share in shares):
                return batch
        return None


def is_bad(loss: float, limit: float) -> bool:
    """Whether a loss is not finite, or above the limit."""
    return not math.isfinite(loss) or loss > limit
