"""What a task asks of the network: outputs and a batch enter, the loss and the figures of merit leave.

Counts come before losses: with several processes or accumulated batches, the mean over particles (or
points) is over all of them, so each batch's sum is divided by the number in the whole step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hepdata.loader.batch import Batch, PairTensors
from hept.losses import RandomNegatives, count_particles, focal_loss, info_nce, number_particles
from hept.losses.infonce import Similarity
from hept.metrics import average_precision_at_k, classify
from hept.metrics.cleaning import Cleaning

PT_THRESHOLDS = (0.9, 0.5, 0.0)


class Objective(Protocol):
    """A loss, and the metric by which the best epoch is chosen (larger is better)."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    def count(self, batch: Batch) -> int:
        """What the loss of this batch is a mean over."""

    def loss(
        self, out: Tensor, batch: Batch, *, normaliser: float | None, generator: torch.Generator | None
    ) -> Tensor:
        """The batch's loss; with a `generator` as in training, without as in evaluation."""

    def scores(self) -> Scores:
        """An empty account of figures of merit."""


class Scores(Protocol):
    """Figures of merit over the clouds of a split."""

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one batch."""

    def result(self) -> dict[str, float]:
        """The figures so far."""


@dataclass(frozen=True)
class TrackingObjective:
    """InfoNCE, and AP@k."""

    tau: float = 0.05
    similarity: Similarity = "published"
    random_negatives: float = 0.2
    pt_min: float = 0.9
    pt_thresholds: tuple[float, ...] = PT_THRESHOLDS
    metric: str = "ap@0.9"

    def count(self, batch: Batch) -> int:
        """Particles with a positive pair."""
        return count_particles(_listed(batch.positives), _number(batch), self._is_anchor(batch))

    def loss(
        self, out: Tensor, batch: Batch, *, normaliser: float | None, generator: torch.Generator | None
    ) -> Tensor:
        """InfoNCE; random negatives only in training."""
        random = None
        if generator is not None and self.random_negatives > 0:
            random = RandomNegatives(self.random_negatives, batch.offsets, generator)
        return info_nce(
            out,
            _listed(batch.positives),
            _listed(batch.negatives),
            _number(batch),
            self._is_anchor(batch),
            tau=self.tau,
            similarity=self.similarity,
            random_negatives=random,
            normaliser=normaliser,
        )

    def scores(self) -> TrackingScores:
        """AP@k at the thresholds."""
        return TrackingScores(self.pt_thresholds)

    def _is_anchor(self, batch: Batch) -> Tensor:
        return batch.is_reconstructable & (batch.pt > self.pt_min)


@dataclass
class TrackingScores:
    """Means over clouds of AP@k, and of precision and recall among the 19 nearest, by pT threshold."""

    pt_thresholds: tuple[float, ...]
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in the clouds of a batch, each by itself."""
        for begin, end in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
            cloud = slice(begin, end)
            for threshold in self.pt_thresholds:
                is_query = batch.is_reconstructable[cloud] & (batch.pt[cloud] > threshold)
                found = average_precision_at_k(
                    out[cloud].cpu(), batch.particle_id[cloud].cpu(), is_query.cpu()
                )
                if found.n_queries:
                    for name, value in (
                        ("ap", found.ap),
                        ("precision19", found.precision),
                        ("recall19", found.recall),
                    ):
                        self.values.setdefault(f"{name}@{threshold:g}", []).append(value)

    def result(self) -> dict[str, float]:
        """Means over the clouds that have a query."""
        names = [f"ap@{threshold:g}" for threshold in self.pt_thresholds]
        return {name: float("nan") for name in names} | {
            name: float(np.mean(values)) for name, values in self.values.items()
        }


@dataclass(frozen=True)
class PileupObjective:
    """Focal loss, and the area under the precision–recall curve, over neutral particles above 0.9 GeV.

    `with_cleaning` adds what mitigation is worth: missing pT, jets, and the PUPPI-like baseline.
    """

    alpha: float = 0.25
    gamma: float = 2.0
    with_cleaning: bool = False
    metric: str = "auc"

    def count(self, batch: Batch) -> int:
        """Scored points."""
        return int(batch.is_scored.sum())

    def loss(
        self,
        out: Tensor,
        batch: Batch,
        *,
        normaliser: float | None,
        generator: torch.Generator | None,  # noqa: ARG002
    ) -> Tensor:
        """Focal loss of the scored points."""
        scored = batch.is_scored
        return focal_loss(
            out[scored].float() if out.dtype in (torch.bfloat16, torch.float16) else out[scored],
            batch.is_leading[scored],
            alpha=self.alpha,
            gamma=self.gamma,
            normaliser=normaliser,
        )

    def scores(self) -> PileupScores:
        """Areas and F1."""
        return PileupScores(cleaning=Cleaning() if self.with_cleaning else None)


@dataclass
class PileupScores:
    """Pooled over all scored points, and as means over clouds."""

    logits: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = field(default_factory=list)
    labels: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = field(default_factory=list)
    cleaning: Cleaning | None = None

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in the clouds of a batch."""
        for begin, end in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
            scored = batch.is_scored[begin:end]
            self.logits.append(out[begin:end][scored].reshape(-1).double().cpu().numpy())
            self.labels.append(batch.is_leading[begin:end][scored].cpu().numpy())
            if self.cleaning is not None:
                columns = {name: values[begin:end].cpu().numpy() for name, values in batch.columns.items()}
                probability = out[begin:end].reshape(-1).double().sigmoid().cpu().numpy()
                self.cleaning.add(columns, probability)

    def result(self) -> dict[str, float]:
        """Areas and F1 (at even odds)."""
        pooled = classify(np.concatenate(self.logits), np.concatenate(self.labels))
        by_cloud = [classify(*cloud) for cloud in zip(self.logits, self.labels, strict=True)]
        return {
            "auc": pooled.auc,
            "roc_auc": pooled.roc_auc,
            "f1": pooled.f1,
            "auc_per_cloud": _mean([cloud.auc for cloud in by_cloud]),
            "roc_auc_per_cloud": _mean([cloud.roc_auc for cloud in by_cloud]),
            "f1_per_cloud": _mean([cloud.f1 for cloud in by_cloud]),
            **(self.cleaning.result() if self.cleaning is not None else {}),
        }


def _number(batch: Batch) -> Tensor:
    return number_particles(batch.particle_id, batch.cloud_index)


def _listed(pairs: PairTensors | None) -> PairTensors:
    if pairs is None:
        raise ValueError("the batch has no pair lists; tracking needs them: load with pairs=True")
    return pairs


def _mean(values: list[float]) -> float:
    finite = [value for value in values if not np.isnan(value)]
    return float(np.mean(finite)) if finite else float("nan")
