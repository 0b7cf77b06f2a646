"""Binary labels of points: their losses, and areas under the precision–recall and ROC curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from hepdata.errors import InputError
from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.losses import focal_loss
from hept.losses.missing_pt import missing_pt_loss
from hept.metrics import Classification, classify
from hept.metrics.calibration import UNCHANGED, ScoreMap, calibrate_curve, fit_score_map
from hept.metrics.figures_of_merit import Figure, make_figures
from hept.settings.train_config import LossConfig

# Before the names of a map's parameters among metrics.
_MAP = "calibration_"


@dataclass(frozen=True)
class ClassificationObjective:
    """A loss and the area under the precision–recall curve, over the points that the target selects.

    Attributes:
        target: Columns of the truth.
        settings: Which loss.
        has_figures: Whether to compute the target's further figures of merit; for pileup these are missing
            pT, jets, and the PUPPI baseline.
        metric: Name of the metric that chooses the best epoch.
    """

    is_embedding: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False
    metric_label: ClassVar[str] = "average precision (AUC in the paper)"

    target: Target
    settings: LossConfig = field(default_factory=LossConfig)
    has_figures: bool = False
    metric: str = "auc"

    @classmethod
    def make(cls, target: Target, loss: LossConfig, *, only_metric: bool) -> ClassificationObjective:
        """The objective for a dataset's target."""
        return cls(target, loss, has_figures=not only_metric)

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
        """Loss of the scored points."""
        logits = out.float() if out.dtype in (torch.bfloat16, torch.float16) else out
        is_scored, settings = select_scored(batch, self.target), self.settings
        if settings.kind == "focal":
            total = focal_loss(
                logits,
                batch.columns[self.target.label] != 0,
                is_scored,
                alpha=settings.alpha,
                gamma=settings.gamma,
                normaliser=normaliser,
            )
        else:
            total = self._weighted_loss(logits.reshape(-1), batch, is_scored, normaliser)
        if settings.missing_pt:
            n_scored = is_scored.sum()
            share = 1.0 if normaliser is None else n_scored / normaliser
            error = (logits.reshape(-1).sigmoid() - self._fraction(batch, logits.dtype)) * is_scored
            px, py = (find_column(batch, name, "loss.missing_pt") for name in ("px", "py"))
            total = total + settings.missing_pt * share * missing_pt_loss(error, px, py, batch.offsets)
        return total

    def _weighted_loss(
        self, logits: Tensor, batch: Batch, is_scored: Tensor, normaliser: Tensor | None
    ) -> Tensor:
        """Cross-entropy, or squared error of the fraction, by a power of pT."""
        if self.settings.kind == "cross-entropy":
            label = (batch.columns[self.target.label] != 0).to(logits.dtype)
            each = F.binary_cross_entropy_with_logits(logits, label, reduction="none")
        else:
            each = (logits.sigmoid() - self._fraction(batch, logits.dtype)).square()
        if self.settings.pt_power:
            pt = find_column(batch, self.target.pt or "pt", "loss.pt_power").to(logits.dtype)
            each = each * pt**self.settings.pt_power
        n_counted = is_scored.sum().clamp(min=1) if normaliser is None else normaliser
        return (each * is_scored).sum() / n_counted

    def _fraction(self, batch: Batch, dtype: torch.dtype) -> Tensor:
        return find_fraction(batch, self.target).to(dtype)

    def scores(self) -> ClassificationScores:
        """Areas and F1."""
        figures = make_figures(self.target.figures) if self.has_figures else []
        return ClassificationScores(self.target, figures)


@dataclass
class ClassificationScores:
    """Figures pooled over all scored points, and as means over clouds.

    Attributes:
        target: Columns of the truth.
        figures: Further figures of merit; they take calibrated probabilities.
        calibration: From logits to probabilities.
        logits: Of the scored points of each cloud.
        labels: Of the same points.
    """

    target: Target
    figures: list[Figure] = field(default_factory=list)
    calibration: ScoreMap = UNCHANGED
    logits: list[NDArray[np.float64]] = field(default_factory=list)
    labels: list[NDArray[np.bool_]] = field(default_factory=list)
    _fractions: list[NDArray[np.float32]] = field(default_factory=list)
    _pts: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Add the clouds of a batch."""
        is_scored, label = select_scored(batch, self.target), batch.columns[self.target.label] != 0
        fraction, pt = find_fraction(batch, self.target), batch.columns.get(self.target.pt or "")
        for begin, end in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
            scored = is_scored[begin:end]
            self.logits.append(out[begin:end][scored].reshape(-1).cpu().double().numpy())
            self.labels.append(label[begin:end][scored].cpu().numpy())
            self._fractions.append(fraction[begin:end][scored].float().cpu().numpy())
            if pt is not None:
                self._pts.append(pt[begin:end][scored].float().cpu().numpy())
            if self.figures:
                columns = {name: values[begin:end].cpu().numpy() for name, values in batch.columns.items()}
                logits = out[begin:end].reshape(-1).cpu().double().numpy()
                probability = self.calibration(logits, columns.get(self.target.pt or ""))
            for figure in self.figures:
                figure.add(columns, probability)

    def calibrate(self) -> dict[str, float]:
        """Fit the map of logits to probabilities; as metrics, since weights keep those of a validation."""
        pts = np.concatenate(self._pts) if self._pts else None
        found = fit_score_map(np.concatenate(self.logits), np.concatenate(self._fractions), pts)
        return {f"{_MAP}{name}": value for name, value in asdict(found).items() if np.isfinite(value)}

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
            "calibration_error": self._calibration_error(),
        }
        for figure in self.figures:
            found |= figure.result()
        return found

    def _calibration_error(self) -> float:
        pts = np.concatenate(self._pts) if self._pts else None
        probability = self.calibration(np.concatenate(self.logits), pts)
        return calibrate_curve(probability, np.concatenate(self.labels)).error


def read_score_map(metrics: Mapping[str, float]) -> ScoreMap:
    """The map among the metrics of a validation; one that changes nothing where there is none."""
    names = [entry.name for entry in fields(ScoreMap)]
    return ScoreMap(**{name: float(metrics[_MAP + name]) for name in names if _MAP + name in metrics})


def find_fraction(batch: Batch, target: Target) -> Tensor:
    """(N,) part of the energy that is from the leading collision; the label where it is not stored."""
    return batch.columns["hard_fraction" if "hard_fraction" in batch.columns else target.label]


def find_column(batch: Batch, name: str, setting: str) -> Tensor:
    """A stored column that a setting of the loss needs.

    Raises:
        InputError: The dataset does not store it.
    """
    if name not in batch.columns:
        raise InputError(
            f"setting {setting}",
            found=f"a dataset without the column {name!r}",
            expected="a dataset that stores it, as pileup datasets do",
            remedy=f"set {setting}=0",
        )
    return batch.columns[name]


def select_scored(batch: Batch, target: Target) -> Tensor:
    """(N,) bool: the points that are scored."""
    if target.selection is not None:
        return batch.columns[target.selection]
    return torch.ones(batch.n_points, dtype=torch.bool, device=batch.features.device)


def _mean(values: list[float]) -> float:
    finite = [value for value in values if not np.isnan(value)]
    return float(np.mean(finite)) if finite else float("nan")
