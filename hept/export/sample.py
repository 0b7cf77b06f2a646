"""Clouds of random points on which an exported model is compared with torch.

Points come in dense groups, like the hits of a track, so that attention weights are not all
negligible. Every twentieth point repeats the previous one, so that sorts see ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import stack_inputs
from hepdata.schema import ModelInput
from hept.export.graph import InputKind, unique_columns

POINTS_OF_A_GROUP = 8
# Spread of a group, in units of the spread of all points.
WIDTH_OF_A_GROUP = 0.03
TIE_EVERY = 20

Array = NDArray[np.float32] | NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Points of some clouds.

    Attributes:
        columns: Stored columns by name, (N,).
        features: What a loader makes of them, (N, F).
        coords: Likewise, (N, D).
        offsets: (B+1,).
    """

    columns: dict[str, Array]
    features: NDArray[np.float32]
    coords: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def select(self, inputs: InputKind) -> dict[str, Array]:
        """Inputs of an exported model, without the offsets."""
        return self.columns if inputs == "raw" else {"features": self.features, "coords": self.coords}


def draw_sample(
    features: Sequence[ModelInput], coords: Sequence[ModelInput], sizes: Sequence[int], *, seed: int
) -> Sample:
    """Random points for a model's inputs, in clouds of the given sizes."""
    random = np.random.default_rng([seed, *sizes])
    n = sum(sizes)
    group = random.integers(0, max(1, n // POINTS_OF_A_GROUP), n)
    kept = np.arange(n)
    kept[TIE_EVERY - 1 :: TIE_EVERY] -= 1
    columns = {
        entry.column: _draw_column(entry, group, random)[kept] for entry in unique_columns(features, coords)
    }
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    return Sample(columns, stack_inputs(columns, features, n), stack_inputs(columns, coords, n), offsets)


def _draw_column(entry: ModelInput, group: NDArray[np.int64], random: np.random.Generator) -> Array:
    """Stored values that have mean 0 and spread 1 after preparation; angles fill the circle."""
    n = len(group)
    if entry.n_classes:
        return random.integers(0, entry.n_classes, n)
    n_groups = int(group.max(initial=0)) + 1
    near = WIDTH_OF_A_GROUP * random.normal(size=n)
    if entry.period is not None:
        turns = random.uniform(-0.5, 0.5, n_groups)[group] + near / (2 * np.pi)
        return (entry.period * (np.mod(turns + 0.5, 1.0) - 0.5)).astype(np.float32)
    prepared = (random.normal(size=n_groups)[group] + near) * entry.spread + entry.shift
    if entry.compression == "log":
        prepared = np.sign(prepared) * np.expm1(np.abs(prepared))
    return (prepared / entry.scale).astype(np.float32)
