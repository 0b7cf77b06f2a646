"""The state of a run: everything that training changes, saved and restored together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from hepdata.errors import InputError
from hept.model.weights import ModelCard, save_weights
from hept.runs.folder import BEST, LAST, RunFolder
from hept.runs.training_data import TrainingData
from hept.settings.train_config import TrainConfig
from hept.training.saved_state import load_newest, save_state
from hept.training.schedule import Schedule


@dataclass
class Position:
    """Position of a run in its training.

    Attributes:
        epoch: Epochs completed.
        batches: Batches of the current epoch that are done.
        step: Optimiser steps made.
        best: Best validation metric.
        best_epoch: Its epoch, counted from 1; 0 before the first validation.
        loss_sum: Sum of the losses of the current epoch's steps.
        loss_steps: Number of them.
        saved_step: Step of the last saved state.
        skipped: Steps that were left out, since float16 had overflowed.
        minutes: Time trained, over all calls.
    """

    epoch: int = 0
    batches: int = 0
    step: int = 0
    best: float = -math.inf
    best_epoch: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    saved_step: int = 0
    skipped: int = 0
    minutes: float = 0.0


@dataclass
class RunState:
    """Network, optimiser and position of a run, and where they are kept."""

    config: TrainConfig
    data: TrainingData
    folder: RunFolder
    network: nn.Module
    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    schedule: Schedule
    average: nn.Module | None
    position: Position = field(default_factory=Position)

    def restore(self) -> list[InputError]:
        """Restore the newest undamaged state; returns the errors of newer ones.

        Raises:
            InputError: There is none, all are damaged, or it is of another dataset.
        """
        saved, _, damages = load_newest(self.folder.path)
        state: dict[str, Any] = saved
        self.data.check_fingerprint(str(state["dataset"]), self.folder.path)
        self.position = Position(**state["position"])
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        # States of earlier versions have no scaler.
        self.scaler.load_state_dict(state.get("scaler") or self.scaler.state_dict())
        if self.average is not None and state["average"] is not None:
            self.average.load_state_dict(state["average"])
        return damages

    def save(self, metrics: dict[str, float], *, is_best: bool = False) -> None:
        """Write weights and state, each file atomically.

        Raises:
            JobError: A file cannot be written.
        """
        where = self.position
        where.saved_step = where.step
        weights = (self.average or self.network).state_dict()
        card = ModelCard(
            config=self.config.model_dump(),
            objective=self.data.target.objective,
            features=self.data.features,
            coords=self.data.coords,
            dataset=self.data.fingerprint,
            epoch=where.epoch,
            metrics=metrics,
        )
        if is_best:
            save_weights(self.folder.path / BEST, weights, card)
        save_weights(self.folder.path / LAST, weights, card)
        state: dict[str, object] = {
            "position": vars(where).copy(),
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.state_dict() if self.average else None,
            "dataset": self.data.fingerprint,
        }
        save_state(self.folder.path, state, keep_last=self.config.keep_last)
