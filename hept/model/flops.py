"""Parameters and operations of a model, computed from shapes only.

An operation is one multiply-add of a matrix product, as in the FLOPs of the paper's tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Cost:
    """Operations of one forward pass.

    Attributes:
        n_points: Points of the input cloud.
        total: Multiply-adds of all parts.
        parts: Multiply-adds by part of the model: encoder, attention, ff, head.
    """

    n_points: int
    total: float
    parts: dict[str, float]


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Number of all parameters and buffers in a model's weights file, and of the trainable ones."""
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return sum(tensor.numel() for tensor in model.state_dict().values()), trainable


def count_operations(model: nn.Module, n_points: int, n_features: int, coords_dim: int) -> Cost:
    """Count the multiply-adds of one cloud without computing them.

    Args:
        model: Maps (features, coords, offsets) to (N, out).
        n_points: Points of the cloud.
        n_features: Columns of the features.
        coords_dim: Columns of the coordinates.

    Raises:
        ValueError: For an empty cloud.
    """
    if n_points < 1:
        raise ValueError(f"n_points: got {n_points}, need at least 1")
    was_training = model.training
    model.eval()
    counter = FlopCounterMode(display=False)
    with FakeTensorMode(allow_non_fake_inputs=True), counter, torch.no_grad():
        offsets = torch.empty(2, dtype=torch.int64)
        model(torch.empty(n_points, n_features), torch.empty(n_points, coords_dim), offsets)
    model.train(was_training)
    parts: dict[str, float] = {}
    counts = counter.get_flop_counts()
    for name, by_operator in counts.items():
        part = name.rsplit(".", 1)[-1]
        if part in ("encoder", "attention", "ff", "head"):
            parts[part] = parts.get(part, 0.0) + sum(by_operator.values()) / 2
    return Cost(n_points, counter.get_total_flops() / 2, parts)
