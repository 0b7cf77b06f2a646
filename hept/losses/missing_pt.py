"""The error of the missing transverse momentum as a loss: weights and momenta enter, one number leaves."""

from __future__ import annotations

import torch
from torch import Tensor


def missing_pt_loss(error: Tensor, px: Tensor, py: Tensor, offsets: Tensor) -> Tensor:
    """Mean over clouds of the length of Σ (w − f)·pT, in units of 10 GeV, smooth at 0.

    Args:
        error: (N,) weight minus true fraction; 0 for points that do not count.
        px: (N,) in GeV.
        py: (N,) in GeV.
        offsets: (B + 1,) where the clouds begin.
    """
    n_clouds = len(offsets) - 1
    cloud = torch.repeat_interleave(
        torch.arange(n_clouds, device=error.device), offsets.diff().to(error.device), output_size=len(error)
    )
    sums = [
        error.new_zeros(n_clouds).index_add(0, cloud, error * momentum.to(error.dtype) / 10)
        for momentum in (px, py)
    ]
    return ((sums[0].square() + sums[1].square() + 1e-2).sqrt() - 0.1).mean()
