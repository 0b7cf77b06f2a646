"""How well scores separate two classes: scores and labels enter, areas and curves leave."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Classification:
    """Quality of a score, and the curves it is read from.

    Attributes:
        auc: Area under the precision–recall curve, as a step function (average precision). The paper's "AUC".
        roc_auc: Area under the ROC curve.
        f1: F1 at the threshold.
        n_points: Points scored.
        n_positives: Points of the positive class.
        recall: Points of the precision–recall curve, one for each distinct score, from high scores to low.
        precision: Its other axis.
        false_positive_rate: The ROC curve's abscissa at the same scores.
    """

    auc: float
    roc_auc: float
    f1: float
    n_points: int
    n_positives: int
    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    false_positive_rate: NDArray[np.float64]


def classify(
    scores: NDArray[np.floating], is_positive: NDArray[np.bool_], *, threshold: float = 0.0
) -> Classification:
    """Average precision, ROC and F1; NaN where a class is missing.

    Args:
        scores: (N,), higher for the positive class; logits as well as probabilities.
        is_positive: (N,) labels.
        threshold: Scores above it are taken for positive in F1 (0 for logits).

    Raises:
        ValueError: Lengths disagree, or a score is not finite.
    """
    if len(scores) != len(is_positive):
        raise ValueError(
            f"scores has {len(scores)} points, is_positive {len(is_positive)}; they must be as many"
        )
    if not np.isfinite(scores).all():
        raise ValueError("scores hold values that are not finite; they must be finite")
    from sklearn.metrics import auc, precision_recall_curve, roc_curve

    n_positives = int(is_positive.sum())
    is_taken = scores > threshold
    n_taken, n_right = int(is_taken.sum()), int((is_taken & is_positive).sum())
    f1 = 2 * n_right / (n_taken + n_positives) if n_taken + n_positives else math.nan
    if not 0 < n_positives < len(scores):
        nothing = np.zeros(0)
        return Classification(math.nan, math.nan, f1, len(scores), n_positives, nothing, nothing, nothing)
    # From low scores to high, and the last point is at recall 0, which no score has.
    precision, recall, _ = (curve[::-1] for curve in precision_recall_curve(is_positive, scores))
    fpr, tpr, _ = roc_curve(is_positive, scores, drop_intermediate=False)
    average_precision = float(np.sum(np.diff(recall) * precision[1:]))
    return Classification(
        average_precision,
        float(auc(fpr, tpr)),
        f1,
        len(scores),
        n_positives,
        recall[1:],
        precision[1:],
        fpr[1:],
    )
