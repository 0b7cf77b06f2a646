"""Angles in Euclidean distances: a periodic coordinate enters, a point on a circle leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def lift_periodic(coords: Tensor, periods: Mapping[int, float]) -> Tensor:
    """Replace each periodic coordinate by its two coordinates on a circle of that circumference.

    The distance of two points is then the chord between them: the arc for close points, the same across the
    seam as elsewhere, smooth at the antipode, and still Euclidean, which hashing by projection needs.

    Args:
        coords: (N, D).
        periods: Period by column, such as {1: 2π}.

    Returns:
        (N, D + number of periods), in the order of the columns.
    """
    if not periods:
        return coords
    columns = []
    for column in range(coords.shape[1]):
        x = coords.narrow(1, column, 1)
        if column in periods:
            radius = periods[column] / (2 * math.pi)
            columns += [radius * torch.cos(x / radius), radius * torch.sin(x / radius)]
        else:
            columns.append(x)
    return torch.cat(columns, -1)


def turn_of(coord: Tensor, period: float) -> Tensor:
    """Where on its circle a periodic coordinate lies, in [0, 1)."""
    turn = torch.remainder(coord / period, 1.0)
    # A tiny negative angle rounds to a whole turn.
    return torch.where(turn < 1, turn, 0.0)
