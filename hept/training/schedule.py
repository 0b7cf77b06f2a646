"""The learning rate at every step: warm-up, then constant, steps, cosine, or halved on a plateau.

Torch's schedulers count steps only; here a cosine can end with the time of the run, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["constant", "step", "plateau", "cosine"]


@dataclass
class Schedule:
    """Learning rate as a function of the step; only the plateau has a state.

    Attributes:
        lr: The rate after warm-up.
        kind: `step` multiplies by `factor` every `step_epochs`; `plateau` when the metric has not improved
            for more than `patience` epochs; `cosine` falls to 0 at `n_steps` or when the time is used up.
        steps_per_epoch: Optimiser steps of an epoch.
        n_steps: Optimiser steps of the run.
        warmup_steps: The rate grows linearly over so many steps.
        factor: For `step` and `plateau`.
        step_epochs: For `step`.
        patience: For `plateau`.
    """

    lr: float
    kind: Kind
    steps_per_epoch: int
    n_steps: int
    warmup_steps: int = 0
    factor: float = 0.5
    step_epochs: int = 500
    patience: int = 20
    n_reductions: int = 0
    best: float = -math.inf
    n_bad_epochs: int = 0

    def rate(self, step: int, used: float = 0.0) -> float:
        """The learning rate of a step, counted from 0, where the part `used` of the run's time is over."""
        warm = min(1.0, (step + 1) / (self.warmup_steps + 1))
        if self.kind == "step":
            return self.lr * warm * self.factor ** (step // self.steps_per_epoch // self.step_epochs)
        if self.kind == "plateau":
            return self.lr * warm * self.factor**self.n_reductions
        if self.kind == "cosine":
            done = min(1.0, max(step / max(self.n_steps, 1), used))
            return self.lr * warm * 0.5 * (1 + math.cos(math.pi * done))
        return self.lr * warm

    def end_epoch(self, metric: float) -> None:
        """Take note of a validation (larger is better)."""
        if metric > self.best:
            self.best, self.n_bad_epochs = metric, 0
            return
        self.n_bad_epochs += 1
        if self.n_bad_epochs > self.patience:
            self.n_reductions, self.n_bad_epochs = self.n_reductions + 1, 0

    def state_dict(self) -> dict[str, float]:
        """The plateau's state."""
        return {"n_reductions": self.n_reductions, "best": self.best, "n_bad_epochs": self.n_bad_epochs}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restore what `state_dict` returned."""
        self.n_reductions = int(state["n_reductions"])
        self.best = state["best"]
        self.n_bad_epochs = int(state["n_bad_epochs"])
