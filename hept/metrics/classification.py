"""How well scores separate two classes: scores and labels enter, areas and curves leave."""

from __future__ import annotations

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
    order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[order]
    # Equal scores cannot be told apart: one point of the curve for each distinct score.
    last_of_tie = (
        np.append(np.flatnonzero(np.diff(sorted_scores)), len(scores) - 1)
        if len(scores)
        else np.zeros(0, int)
    )
    true_positives = np.cumsum(is_positive[order], dtype=np.int64)[last_of_tie]
    false_positives = last_of_tie + 1 - true_positives
    n_positives = int(is_positive.sum())
    n_negatives = len(scores) - n_positives
    nan = float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = true_positives / (true_positives + false_positives)
        recall = true_positives / n_positives if n_positives else np.full(len(last_of_tie), nan)
        fpr = false_positives / n_negatives if n_negatives else np.full(len(last_of_tie), nan)
    auc = float(np.sum(np.diff(recall, prepend=0.0) * precision)) if n_positives else nan
    roc_auc = nan
    if n_positives and n_negatives:
        roc_auc = float(np.trapezoid(np.append(0.0, recall), np.append(0.0, fpr)))
    is_taken = scores > threshold
    n_right = int((is_taken & is_positive).sum())
    n_taken = int(is_taken.sum())
    f1 = 2 * n_right / (n_taken + n_positives) if n_taken + n_positives else nan
    return Classification(auc, roc_auc, f1, len(scores), n_positives, recall, precision, fpr)
