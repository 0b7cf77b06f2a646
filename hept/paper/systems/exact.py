"""Attention over all pairs of a cloud: quadratic, and the limit of every approximation.

Axes: H heads, N points, D dimensions.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.projections import Kernel, multi_head


class ExactAttention(nn.Module):
    """Softmax attention of every point over all points of its cloud, one cloud at a time."""

    def __init__(self, kernel: Kernel = "dot") -> None:
        super().__init__()
        self.kernel: Kernel = kernel

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        bounds = clouds.offsets.tolist()
        parts = [
            log_kernel(query[:, a:b], key[:, a:b], self.kernel).softmax(-1) @ value[:, a:b]
            for a, b in itertools.pairwise(bounds)
        ]
        return torch.cat(parts, 1)


def log_kernel(query: Tensor, key: Tensor, kernel: Kernel) -> Tensor:
    """Logarithm of the kernel, (…, Q, D) and (…, K, D) to (…, Q, K): q·k, or −½‖q − k‖²."""
    if kernel == "dot":
        return query @ key.mT
    # q·k − ½q² − ½k² cancels in float32; relative to one key and in float64 it is as precise as q − k.
    middle = key[..., key.shape[-2] // 2, None, :].detach() if key.shape[-2] else key.new_zeros(())
    q, k = (query - middle).double(), (key - middle).double()
    logits = q @ k.mT - 0.5 * q.square().sum(-1)[..., None] - 0.5 * k.square().sum(-1)[..., None, :]
    return logits.clamp(max=0.0).to(query.dtype)


def make_exact(frame: Frame, width: int) -> AttentionFactory:
    """Make attention over all pairs with the sizes of a comparison."""
    return multi_head(frame, width, lambda dim, layer: ExactAttention())
