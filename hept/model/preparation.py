"""Preparation of a network's inputs: scaled columns enter, compressed and standardised ones leave.

Axes: N points, F inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from hepdata.errors import InputError
from hepdata.schema import ModelInput


class Preparation(nn.Module):
    """(compress(x) − shift) / spread, column by column.

    The constants come from the inputs, which are stored in the header of the weights; buffers are not saved.
    """

    def __init__(self, inputs: Sequence[ModelInput]) -> None:
        super().__init__()
        is_log = torch.tensor([entry.compression == "log" for entry in inputs])
        self.register_buffer("is_log", is_log, persistent=False)
        self.register_buffer("shift", torch.tensor([entry.shift for entry in inputs]), persistent=False)
        self.register_buffer("factor", torch.tensor([1 / entry.spread for entry in inputs]), persistent=False)

    is_log: Tensor
    shift: Tensor
    factor: Tensor

    def forward(self, scaled: Tensor) -> Tensor:
        """(N, F) to (N, F), in the precision of the weights."""
        return (compress(scaled.to(self.shift.dtype), self.is_log) - self.shift) * self.factor


def compress(scaled: Tensor, is_log: Tensor) -> Tensor:
    """(N, F): sign(x)·log(1 + |x|) in the columns that `is_log` (F,) marks."""
    return torch.where(is_log, scaled.sign() * scaled.abs().log1p(), scaled)


def learn_spread(inputs: Sequence[ModelInput], batches: Iterable[Tensor]) -> tuple[ModelInput, ...]:
    """Set shift and spread of the inputs with `standardise` to mean and standard deviation of `batches`.

    Args:
        inputs: The F inputs.
        batches: Scaled values, (N, F) each.

    Raises:
        InputError: A column to standardise has values that are not finite.
    """
    is_log = torch.tensor([entry.compression == "log" for entry in inputs])
    count, total, squares = 0, torch.zeros(len(inputs)).double(), torch.zeros(len(inputs)).double()
    for scaled in batches:
        compressed = compress(scaled, is_log).double()
        count += len(compressed)
        total += compressed.sum(0)
        squares += compressed.square().sum(0)
    mean = total / max(count, 1)
    deviation = (squares / max(count, 1) - mean.square()).clamp(min=0).sqrt()
    # A constant column is only shifted to 0: dividing by its rounding error would amplify noise.
    spread = torch.where(deviation > 1e-6 * (1 + mean.abs()), deviation, torch.ones_like(deviation))
    for entry, finite in zip(inputs, (mean + spread).isfinite().tolist(), strict=True):
        if entry.standardise and not finite:
            raise InputError(
                f"training split, column {entry.column!r}",
                found="values that are NaN or infinite",
                expected="finite values, of which mean and spread can be computed",
                remedy="find them with hept-data validate, and build the dataset without them",
            )
    return tuple(
        replace(entry, shift=float(mean[i]), spread=float(spread[i])) if entry.standardise else entry
        for i, entry in enumerate(inputs)
    )
