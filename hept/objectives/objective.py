"""Objectives: outputs and a batch enter, the loss and the figures of merit leave.

A dataset names its objective and the columns of its truth (`hepdata.schema.Target`). A new task with pairs or
binary labels needs no code; any other task adds its objective to `OBJECTIVES`.

The count is computed before the loss: with several processes or accumulated batches, each batch's sum is
divided by the number of particles (or points) in the whole step.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from torch import Tensor

from hepdata.errors import InputError, nearest_name
from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.objectives.classification import ClassificationObjective
from hept.objectives.pairs import PairsObjective
from hept.settings.train_config import LossConfig


class Scores(Protocol):
    """Figures of merit over the clouds of a split."""

    def add(self, out: Tensor, batch: Batch) -> None:
        """Add one batch."""

    def result(self) -> dict[str, float]:
        """The figures so far."""


class Objective(Protocol):
    """A loss, and the metric that chooses the best epoch (larger is better).

    Attributes:
        is_embedding: Whether outputs are embeddings to be clustered; otherwise they are logits.
        metric_label: Label of the metric in tables.
    """

    is_embedding: ClassVar[bool]
    metric_label: ClassVar[str]

    @classmethod
    def make(cls, target: Target, loss: LossConfig, *, only_metric: bool) -> Objective:
        """The objective for a dataset's target; `only_metric` computes only the metric of the best epoch."""

    @property
    def needs_pairs(self) -> bool:
        """Whether the loss needs pair lists."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    def count(self, batch: Batch) -> Tensor:
        """What the loss of this batch is a mean over; an integer on the device of the batch."""

    def loss(
        self, out: Tensor, batch: Batch, *, normaliser: Tensor | None, generator: torch.Generator | None
    ) -> Tensor:
        """The batch's loss; a `generator` is given in training, None in evaluation."""

    def scores(self) -> Scores:
        """Empty figures of merit, to which batches are added."""


OBJECTIVES: dict[str, type[Objective]] = {
    "pairs": PairsObjective,
    "classification": ClassificationObjective,
}


def find_objective(name: str) -> type[Objective]:
    """Find an objective by name.

    Raises:
        InputError: Unknown name.
    """
    if name not in OBJECTIVES:
        raise InputError(
            f"objective {name!r}",
            found="no objective of this name",
            expected=f"one of {', '.join(OBJECTIVES)}",
            remedy=f"{nearest_name(name, list(OBJECTIVES))}, or import the module that adds it to OBJECTIVES",
        )
    return OBJECTIVES[name]


def make_objective(target: Target, loss: LossConfig, *, only_metric: bool = False) -> Objective:
    """Loss and metrics for a dataset's target; `only_metric` computes only the metric of the best epoch.

    Raises:
        InputError: The target names an unknown objective.
    """
    return find_objective(target.objective).make(target, loss, only_metric=only_metric)
