"""Focal loss for a rare class: logits and labels enter, one number leaves."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def focal_loss(
    logits: Tensor,
    is_positive: Tensor,
    is_counted: Tensor | None = None,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    normaliser: Tensor | float | None = None,
) -> Tensor:
    """Mean over the points of α · (1 − p)^γ · (−log p), where p is the probability of the true class.

    As in the published training, α multiplies both classes (Lin et al. 2017, https://arxiv.org/abs/1708.02002,
    weight the classes by α and 1 − α), so it only scales the gradient.

    Args:
        logits: (N,) or (N, 1).
        is_positive: (N,) bool.
        is_counted: (N,) bool, the points that count; all where not given. A GPU is not asked how many.
        alpha: Overall factor.
        gamma: How strongly well-classified points are down-weighted.
        normaliser: Divide the sum by this instead of N (the points of all processes and accumulated batches).

    Raises:
        ValueError: Shapes disagree.
    """
    logits = logits.reshape(-1)
    if logits.shape != is_positive.reshape(-1).shape:
        raise ValueError(
            f"is_positive has shape {tuple(is_positive.shape)}; logits have {len(logits)} points"
        )
    target = is_positive.reshape(-1).to(logits.dtype)
    cross_entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_wrong = torch.sigmoid(torch.where(target > 0.5, -logits, logits))
    losses = alpha * p_wrong.pow(gamma) * cross_entropy
    if is_counted is None:
        is_counted = torch.ones_like(is_positive, dtype=torch.bool)
    count = is_counted.sum() if normaliser is None else torch.as_tensor(normaliser, device=logits.device)
    # No point to classify: a zero with a gradient, so that the training step still works.
    return torch.where(is_counted.reshape(-1), losses, 0.0).sum() / count.clamp(min=1)
