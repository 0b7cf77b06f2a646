"""What a dataset holds, counted while it is written: clouds, points, pairs, particles, ranges of columns.

Clouds enter one at a time; numbers leave that add up over shards, so that no file is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from hepdata.cloud import PointCloud

_Number = TypeVar("_Number", int, float)


class ColumnStatistics(BaseModel):
    """Range and sum of one column; None where there is no finite value.

    Attributes:
        minimum: Smallest finite value.
        maximum: Largest finite value.
        total: Sum of the finite values: for a boolean column, how many are true.
        n_not_finite: NaN and infinite values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    minimum: float | None = None
    maximum: float | None = None
    total: float = 0.0
    n_not_finite: int = 0

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        return ColumnStatistics(
            minimum=_pick(min, self.minimum, other.minimum),
            maximum=_pick(max, self.maximum, other.maximum),
            total=self.total + other.total,
            n_not_finite=self.n_not_finite + other.n_not_finite,
        )


class Statistics(BaseModel):
    """Counts of some clouds; `a + b` are the counts of both.

    Attributes:
        n_clouds: Point clouds (events, or sectors of events).
        n_points: Points in all of them.
        n_points_min: Points of the smallest cloud, None without clouds.
        n_points_max: Points of the largest cloud.
        n_positives: Stored positive pairs.
        n_negatives: Stored negative pairs.
        counts: What the task's labels count, e.g. "particles", "scored_leading".
        columns: One entry per column.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    n_clouds: int = 0
    n_points: int = 0
    n_points_min: int | None = None
    n_points_max: int | None = None
    n_positives: int = 0
    n_negatives: int = 0
    counts: dict[str, int] = {}
    columns: dict[str, ColumnStatistics] = {}

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            n_clouds=self.n_clouds + other.n_clouds,
            n_points=self.n_points + other.n_points,
            n_points_min=_pick(min, self.n_points_min, other.n_points_min),
            n_points_max=_pick(max, self.n_points_max, other.n_points_max),
            n_positives=self.n_positives + other.n_positives,
            n_negatives=self.n_negatives + other.n_negatives,
            counts=_add(self.counts, other.counts, 0),
            columns=_add(self.columns, other.columns, ColumnStatistics()),
        )


_Addable = TypeVar("_Addable", int, ColumnStatistics)


def count_cloud(cloud: PointCloud) -> Statistics:
    """The statistics of one cloud."""
    n_points = cloud.n_points
    return Statistics(
        n_clouds=1,
        n_points=n_points,
        n_points_min=n_points,
        n_points_max=n_points,
        n_positives=cloud.positives.n_pairs if cloud.positives is not None else 0,
        n_negatives=cloud.negatives.n_pairs if cloud.negatives is not None else 0,
        counts=_count_labels(cloud.columns),
        columns={name: _count_column(values) for name, values in cloud.columns.items()},
    )


def add_up(parts: list[Statistics]) -> Statistics:
    """The statistics of all parts together, added in order."""
    total = Statistics()
    for part in parts:
        total = total + part
    return total


def _count_labels(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    if "particle_id" in columns:
        particle_id = columns["particle_id"]
        distinct, first = np.unique(particle_id, return_index=True)
        is_particle = distinct != 0
        counts["particles"] = int(is_particle.sum())
        counts["noise_points"] = int((particle_id == 0).sum())
        if "is_reconstructable" in columns:
            keeps = np.asarray(columns["is_reconstructable"], dtype=bool)[first] & is_particle
            counts["reconstructable_particles"] = int(keeps.sum())
    if "is_leading" in columns:
        is_leading = np.asarray(columns["is_leading"], dtype=bool)
        counts["leading"] = int(np.count_nonzero(is_leading))
        if "is_scored" in columns:
            is_both = is_leading & np.asarray(columns["is_scored"], dtype=bool)
            counts["scored_leading"] = int(np.count_nonzero(is_both))
    if "is_scored" in columns:
        counts["scored"] = int(np.count_nonzero(columns["is_scored"]))
    return counts


def _count_column(values: NDArray[np.generic]) -> ColumnStatistics:
    if not len(values):
        return ColumnStatistics()
    if values.dtype.kind == "b":
        n_true = int(np.count_nonzero(values))
        return ColumnStatistics(minimum=float(n_true == len(values)), maximum=float(n_true > 0), total=n_true)
    minimum, maximum, n_values = float(values.min()), float(values.max()), len(values)
    # NaN is passed on by both: the usual column, all finite, needs no copy.
    if not (math.isfinite(minimum) and math.isfinite(maximum)):
        values = values[np.isfinite(values)]
        if not len(values):
            return ColumnStatistics(n_not_finite=n_values)
        minimum, maximum = float(values.min()), float(values.max())
    return ColumnStatistics(
        minimum=minimum,
        maximum=maximum,
        total=float(values.sum(dtype=np.float64)),
        n_not_finite=n_values - len(values),
    )


def _pick(
    choose: Callable[[_Number, _Number], _Number], a: _Number | None, b: _Number | None
) -> _Number | None:
    """The smaller or larger of two numbers of which either may be missing."""
    if a is None or b is None:
        return b if a is None else a
    return choose(a, b)


def _add(a: dict[str, _Addable], b: dict[str, _Addable], zero: _Addable) -> dict[str, _Addable]:
    """Two dictionaries added entry by entry, in the order in which the entries first appear."""
    return {name: a.get(name, zero) + b.get(name, zero) for name in [*a, *(n for n in b if n not in a)]}
