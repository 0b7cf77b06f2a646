"""What a task asks of the network: outputs and a batch enter, the loss and the figures of merit leave.

A dataset names its objective and the columns of its truth (`hepdata.schema.Target`). A new task that is about
pairs or classes needs no code; any other one adds its objective to `OBJECTIVES`.

Counts come before losses: with several processes or accumulated batches, the mean over particles (or
points) is over all of them, so each batch's sum is divided by the number in the whole step.
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
from hept.settings.fields import LossConfig


class Scores(Protocol):
    """Figures of merit over the clouds of a split."""

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one batch."""

    def result(self) -> dict[str, float]:
        """The figures so far."""


class Objective(Protocol):
    """A loss, and the metric by which the best epoch is chosen (larger is better).

    Attributes:
        is_embedding: Whether outputs are embeddings, in which groups are found; otherwise they are logits.
        needs_pairs: Whether the loss needs pair lists.
        metric_label: What tables call the metric.
    """

    is_embedding: ClassVar[bool]
    needs_pairs: ClassVar[bool]
    metric_label: ClassVar[str]

    @classmethod
    def make(cls, target: Target, loss: LossConfig, *, only_metric: bool) -> Objective:
        """The objective for a dataset's target; `only_metric` keeps what chooses the best epoch."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    def count(self, batch: Batch) -> Tensor:
        """What the loss of this batch is a mean over; an integer on the device of the batch."""

    def loss(
        self, out: Tensor, batch: Batch, *, normaliser: Tensor | None, generator: torch.Generator | None
    ) -> Tensor:
        """The batch's loss; with a `generator` as in training, without as in evaluation."""

    def scores(self) -> Scores:
        """An empty account of figures of merit."""


OBJECTIVES: dict[str, type[Objective]] = {
    "pairs": PairsObjective,
    "classification": ClassificationObjective,
}


def find_objective(name: str) -> type[Objective]:
    """The objective of a name.

    Raises:
        InputError: There is none.
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
    """Loss and metrics for a dataset's target; `only_metric` keeps what chooses the best epoch.

    Raises:
        InputError: The target names an unknown objective.
    """
    return find_objective(target.objective).make(target, loss, only_metric=only_metric)
