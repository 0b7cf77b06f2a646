"""Binary labels of points: focal loss, and areas under the precision–recall and ROC curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.losses import focal_loss
from hept.metrics import Classification, classify
from hept.metrics.figures import Figure, make_figures
from hept.settings.fields import LossConfig


@dataclass(frozen=True)
class ClassificationObjective:
    """Focal loss, and the area under the precision–recall curve, over the points that the target selects.

    Attributes:
        target: Columns of the truth.
        alpha: Factor of the focal loss.
        gamma: Exponent of the focal loss.
        has_figures: Whether to compute the target's further figures of merit; for pileup these are missing
            pT, jets, and the PUPPI baseline.
        metric: Name of the metric that chooses the best epoch.
    """

    is_embedding: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False
    metric_label: ClassVar[str] = "average precision (AUC in the paper)"

    target: Target
    alpha: float = 0.25
    gamma: float = 2.0
    has_figures: bool = False
    metric: str = "auc"

    @classmethod
    def make(cls, target: Target, loss: LossConfig, *, only_metric: bool) -> ClassificationObjective:
        """The objective for a dataset's target."""
        return cls(target, alpha=loss.alpha, gamma=loss.gamma, has_figures=not only_metric)

    def count(self, batch: Batch) -> Tensor:
        """Scored points."""
        return select_scored(batch, self.target).sum()

    def loss(
        self,
        out: Tensor,
        batch: Batch,
        *,
        normaliser: Tensor | None,
        generator: torch.Generator | None,  # noqa: ARG002
    ) -> Tensor:
        """Focal loss of the scored points."""
        return focal_loss(
            out.float() if out.dtype in (torch.bfloat16, torch.float16) else out,
            batch.columns[self.target.label] != 0,
            select_scored(batch, self.target),
            alpha=self.alpha,
            gamma=self.gamma,
            normaliser=normaliser,
        )

    def scores(self) -> ClassificationScores:
        """Areas and F1."""
        figures = make_figures(self.target.figures) if self.has_figures else []
        return ClassificationScores(self.target, figures)


@dataclass
class ClassificationScores:
    """Figures pooled over all scored points, and as means over clouds."""

    target: Target
    figures: list[Figure] = field(default_factory=list)
    logits: list[NDArray[np.float64]] = field(default_factory=list)
    labels: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Add the clouds of a batch."""
        is_scored, label = select_scored(batch, self.target), batch.columns[self.target.label] != 0
        for begin, end in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
            scored = is_scored[begin:end]
            self.logits.append(out[begin:end][scored].reshape(-1).double().cpu().numpy())
            self.labels.append(label[begin:end][scored].cpu().numpy())
            for figure in self.figures:
                columns = {name: values[begin:end].cpu().numpy() for name, values in batch.columns.items()}
                figure.add(columns, out[begin:end].reshape(-1).double().sigmoid().cpu().numpy())

    def pooled(self) -> Classification:
        """Curves and areas over the points of all clouds."""
        return classify(np.concatenate(self.logits), np.concatenate(self.labels))

    def result(self) -> dict[str, float]:
        """Areas and F1 (at probability ½)."""
        pooled = self.pooled()
        by_cloud = [classify(*cloud) for cloud in zip(self.logits, self.labels, strict=True)]
        found = {
            "auc": pooled.auc,
            "roc_auc": pooled.roc_auc,
            "f1": pooled.f1,
            "auc_per_cloud": _mean([cloud.auc for cloud in by_cloud]),
            "roc_auc_per_cloud": _mean([cloud.roc_auc for cloud in by_cloud]),
            "f1_per_cloud": _mean([cloud.f1 for cloud in by_cloud]),
        }
        for figure in self.figures:
            found |= figure.result()
        return found


def select_scored(batch: Batch, target: Target) -> Tensor:
    """(N,) bool: the points that are scored."""
    if target.selection is not None:
        return batch.columns[target.selection]
    return torch.ones(batch.n_points, dtype=torch.bool, device=batch.features.device)


def _mean(values: list[float]) -> float:
    finite = [value for value in values if not np.isnan(value)]
    return float(np.mean(finite)) if finite else float("nan")
