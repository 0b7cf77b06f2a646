"""How a training ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FitResult:
    """How a run ended.

    Attributes:
        run: The run folder.
        metric: Name of the validation metric.
        best: Its best value; None for a run that was not validated.
        best_epoch: The epoch of it, counted from 1; None likewise.
        epochs: Epochs trained.
        steps: Optimiser steps made.
        seconds: Wall time of this call.
        stopped: "finished", "early stopping", "time limit" or "interrupted".
        threads: Of each process, on a CPU.
        is_first_process: Whether this is the first process, which prints and writes for all.
        signal: Number of the signal that interrupted it, in any of the processes.
        skipped: Steps that were left out, since float16 had overflowed; the scale of the loss was halved.
    """

    run: Path
    metric: str
    best: float | None
    best_epoch: int | None
    epochs: int
    steps: int
    seconds: float
    stopped: str
    threads: int
    is_first_process: bool = True
    signal: int | None = None
    skipped: int = 0
