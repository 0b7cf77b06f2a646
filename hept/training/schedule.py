"""The learning rate along the way: warm-up, then constant, steps, cosine, or lower on a plateau; by torch."""

from __future__ import annotations

import warnings
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    ReduceLROnPlateau,
    StepLR,
)

from hept.settings.fields import OptimizerConfig


class Schedule:
    """The schedulers of a run; each multiplies the rate of the optimiser.

    Args:
        optimizer: Whose rate is changed.
        settings: Kind of the schedule, and its numbers.
        steps_per_epoch: Optimiser steps of an epoch.
        n_steps: Optimiser steps of the run.
    """

    def __init__(
        self, optimizer: Optimizer, settings: OptimizerConfig, *, steps_per_epoch: int, n_steps: int
    ) -> None:
        self.optimizer = optimizer
        warm = settings.warmup_steps
        chain: list[LRScheduler] = [LinearLR(optimizer, 1 / (warm + 1), total_iters=warm)]
        if settings.schedule == "step":
            chain.append(StepLR(optimizer, settings.step_epochs * steps_per_epoch, settings.factor))
        elif settings.schedule == "cosine":
            chain.append(CosineAnnealingLR(optimizer, n_steps))
        self._of_steps = ChainedScheduler(chain)
        is_plateau = settings.schedule == "plateau"
        self._of_epochs = (
            ReduceLROnPlateau(optimizer, "max", settings.factor, settings.patience, threshold=0, eps=0)
            if is_plateau
            else None
        )

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def end_step(self) -> None:
        """Move on to the next step."""
        with warnings.catch_warnings():
            # The first step is left out if float16 overflows, which the host does not know yet.
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
            self._of_steps.step()

    def end_epoch(self, metric: float) -> None:
        """Take note of a validation (larger is better)."""
        if self._of_epochs is not None:
            self._of_epochs.step(metric)

    def state_dict(self) -> dict[str, Any]:
        """The memory of all schedulers; the rate itself is in the state of the optimiser."""
        return {
            "of_steps": self._of_steps.state_dict(),
            "of_epochs": self._of_epochs.state_dict() if self._of_epochs else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another schedule stopped."""
        self._of_steps.load_state_dict(state["of_steps"])
        if self._of_epochs is not None:
            self._of_epochs.load_state_dict(state["of_epochs"])
