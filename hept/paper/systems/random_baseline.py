"""The random baseline: an untrained HEPT for embeddings, random scores for classes (paper, Sec. 6.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Untrained(nn.Module):
    """A network with frozen random weights.

    Args:
        network: Maps (features, coords, offsets) to outputs.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        # The trainer needs a trainable parameter; this one has no effect.
        self.idle = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """The output of the network."""
        out: Tensor = self.network(features, coords, offsets)
        return out + 0 * self.idle


class RandomScores(nn.Module):
    """Random logits, the same in every call with the same number of points.

    Args:
        out_dim: Columns of the output.
        seed: Seed of the random numbers.
    """

    def __init__(self, out_dim: int, seed: int = 0) -> None:
        super().__init__()
        self.out_dim, self.seed = out_dim, seed
        self.idle = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """(N, out_dim) normally distributed numbers."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randn(features.shape[0], self.out_dim, generator=generator, dtype=features.dtype)
        return drawn.to(features.device) + 0 * self.idle
