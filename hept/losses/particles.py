"""Particles of a batch and the weights of their pairs: labels enter, particle numbers and weights leave.

No function waits for a GPU.

Axes: N points.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Rows(Protocol):
    """Compressed sparse rows: the partners of point i are idx[ptr[i]:ptr[i + 1]]."""

    @property
    def ptr(self) -> Tensor: ...  # noqa: D102
    @property
    def idx(self) -> Tensor: ...  # noqa: D102


def number_particles(particle_id: Tensor, cloud_index: Tensor) -> Tensor:
    """(N,) numbers 0, 1, … that are equal for equal particle and cloud, since ids repeat between events."""
    return rank_particles(cloud_index, particle_id)


def count_particles(n_positives: Tensor, particle: Tensor, is_anchor: Tensor) -> Tensor:
    """How many particles the loss is a mean over: those with an anchor that has a positive.

    Args:
        n_positives: (N,) same-particle partners of every point.
        particle: (N,) int64, what `number_particles` returns.
        is_anchor: (N,) bool.
    """
    n_anchors = torch.zeros_like(particle).index_add_(0, particle, (is_anchor & (n_positives > 0)).long())
    return (n_anchors > 0).sum()


def rank_particles(*keys: Tensor) -> Tensor:
    """(N,) dense ranks 0, 1, … of the tuples of `keys` (N,); the first key is the most significant.

    All shapes follow from the inputs, so no GPU synchronisation is needed.
    """
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in reversed(keys):
        order = order[torch.sort(key[order], stable=True).indices]
    is_new = torch.zeros_like(order)
    for key in keys:
        ordered = key[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    return torch.empty_like(order).scatter_(0, order, is_new.cumsum(0))


def weigh_anchors(n_positives: Tensor, particle: Tensor, is_anchor: Tensor) -> tuple[Tensor, Tensor]:
    """Weight (N,) of the pairs of each point, 1 / pairs of its particle; and the number of particles."""
    n_pairs = torch.where(is_anchor, n_positives, 0)
    number = rank_particles(particle)
    of_particle = torch.zeros_like(n_pairs).index_add_(0, number, n_pairs)
    weight = torch.where(n_pairs > 0, of_particle[number].float().reciprocal(), 0.0)
    return weight, (of_particle > 0).sum()
