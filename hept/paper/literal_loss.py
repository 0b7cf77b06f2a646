"""InfoNCE over a pair list, step by step as published: index all pairs, sort them, scatter them.

Our implementation of the published procedure, for comparison. Points without negatives get a zero
denominator, so that both sides compute the same number.
"""

from __future__ import annotations

import torch
from torch import Tensor


def literal_info_nce(
    x: Tensor, pairs: Tensor, particle: Tensor, is_anchor: Tensor, *, tau: float = 0.05
) -> Tensor:
    """The loss of a list of pairs (2, E) that contains both directions."""
    order = torch.argsort(pairs[0], stable=True)
    anchor, partner = pairs[:, order]
    distance = torch.linalg.vector_norm(x[anchor] - x[partner], dim=1)
    logit = torch.exp(-distance / (2 * 0.75**2)) / tau
    is_same = particle[anchor] == particle[partner]
    is_positive = is_same & is_anchor[anchor]
    top = logit.max().detach()
    denominator = x.new_zeros(len(x)).scatter_add(0, anchor[~is_same], torch.exp(logit[~is_same] - top))
    positive = torch.exp(logit[is_positive] - top)
    loss = -torch.log(positive / (positive + denominator[anchor[is_positive]]))
    _, group = torch.unique(particle[anchor[is_positive]], return_inverse=True)
    n_groups = int(group.max()) + 1
    total = x.new_zeros(n_groups).scatter_add(0, group, loss)
    return (total / torch.bincount(group, minlength=n_groups)).mean()
