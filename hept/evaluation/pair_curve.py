"""Precision against recall of pairs of points: near in the embedding should mean same particle.

Axes: N points of a cloud, Q anchors, P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.schema import SCORED_PT, Target
from hept.metrics.classification import Classification, classify
from hept.objectives.pairs import select_points

# All pairs are sorted at the end, which takes seconds and a gigabyte for this many.
MAX_PAIRS = 20_000_000


@dataclass
class PairCurve:
    """Every pair of a point above `SCORED_PT` with another point of its cloud, by distance.

    Where a split has more than `max_pairs` of them, each cloud has an equal share of that number, and anchors
    at equal steps along the stored order stand for all.

    Attributes:
        target: Columns of the truth.
        n_clouds: Clouds of the split.
        max_pairs: Pairs of all clouds together.
    """

    target: Target
    n_clouds: int
    max_pairs: int = MAX_PAIRS
    nearness: list[NDArray[np.float32]] = field(default_factory=list)
    is_same: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one cloud."""
        anchors = select_points(batch, self.target, SCORED_PT).cpu().numpy().nonzero()[0]
        if len(anchors) == 0:
            return
        x, particle = out.cpu().double().numpy(), batch.columns[self.target.label].cpu().numpy()
        share = max(1, self.max_pairs // self.n_clouds // len(x))
        if len(anchors) > share:
            anchors = anchors[np.linspace(0, len(anchors) - 1, share).round().astype(np.int64)]
        # Rounding grows with the distance from the origin.
        x = x - x.mean(0)
        squared = np.square(x).sum(1)
        distance = squared[anchors, None] + squared - 2 * x[anchors] @ x.T  # (Q, N)
        is_other = anchors[:, None] != np.arange(len(x))
        self.nearness.append(-distance[is_other].astype(np.float32))  # (P,)
        self.is_same.append((particle[anchors, None] == particle)[is_other])

    def result(self) -> Classification:
        """The curve over all clouds."""
        return classify(
            np.concatenate([*self.nearness, np.zeros(0, np.float32)]),
            np.concatenate([*self.is_same, np.zeros(0, np.bool_)]),
        )
