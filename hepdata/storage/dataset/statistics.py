"""Statistics of a dataset, counted while it is written: clouds, points, pairs, particles, ranges of columns.

Statistics of clouds and shards can be added, so that no file is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, NonNegativeInt

from hepdata.cloud import PointCloud

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class ColumnStatistics:
    """Range and sum of one column; None if there is no finite value.

    Attributes:
        minimum: Smallest finite value.
        maximum: Largest finite value.
        total: Sum of the finite values: for a boolean column, how many are true.
        n_not_finite: NaN and infinite values.
    """

    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None
    total: FiniteFloat = 0.0
    n_not_finite: NonNegativeInt = 0

    @classmethod
    def of(cls, values: NDArray[np.generic]) -> ColumnStatistics:
        """The statistics of the values of one cloud."""
        if not len(values):
            return cls()
        if values.dtype.kind == "b":
            n_true = int(np.count_nonzero(values))
            return cls(float(n_true == len(values)), float(n_true > 0), float(n_true))
        # ufunc.reduce is faster than array.min(), which is partly implemented in Python.
        minimum, maximum = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
        # Both propagate NaN, so a column of finite values needs no copy.
        if not (math.isfinite(minimum) and math.isfinite(maximum)):
            finite = values[np.isfinite(values)]
            return cls.of(finite) + cls(n_not_finite=len(values) - len(finite))
        return cls(minimum, maximum, float(np.add.reduce(values, dtype=np.float64)))

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        return ColumnStatistics(
            minimum=_pick(min, self.minimum, other.minimum),
            maximum=_pick(max, self.maximum, other.maximum),
            total=self.total + other.total,
            n_not_finite=self.n_not_finite + other.n_not_finite,
        )


@dataclass(frozen=True)
class Statistics:
    """Counts of some clouds; `a + b` are the counts of both.

    Plain dataclasses, validated when a manifest is read: models of pydantic for every column of every cloud
    would take longer than counting.

    Attributes:
        n_clouds: Point clouds (events, or sectors of events).
        n_points: Points in all of them.
        n_points_min: Points of the smallest cloud, None without clouds.
        n_points_max: Points of the largest cloud.
        n_positives: Stored positive pairs.
        n_negatives: Stored negative pairs.
        counts: Counts of labels, e.g. "particles", "scored_leading".
        columns: One entry per column.
    """

    n_clouds: NonNegativeInt = 0
    n_points: NonNegativeInt = 0
    n_points_min: NonNegativeInt | None = None
    n_points_max: NonNegativeInt | None = None
    n_positives: NonNegativeInt = 0
    n_negatives: NonNegativeInt = 0
    counts: dict[str, NonNegativeInt] = field(default_factory=dict)
    columns: dict[str, ColumnStatistics] = field(default_factory=dict)

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
    return Statistics(
        n_clouds=1,
        n_points=cloud.n_points,
        n_points_min=cloud.n_points,
        n_points_max=cloud.n_points,
        n_positives=cloud.positives.n_pairs if cloud.positives is not None else 0,
        n_negatives=cloud.negatives.n_pairs if cloud.negatives is not None else 0,
        counts=_count_labels(cloud.columns),
        columns={name: ColumnStatistics.of(values) for name, values in cloud.columns.items()},
    )


def add_up(parts: Iterable[Statistics]) -> Statistics:
    """The statistics of all parts together, added in order."""
    return sum(parts, start=Statistics())


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


def _pick(
    choose: Callable[[_Number, _Number], _Number], a: _Number | None, b: _Number | None
) -> _Number | None:
    """The smaller or larger of two numbers, either of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return choose(a, b)


def _add(a: dict[str, _Addable], b: dict[str, _Addable], zero: _Addable) -> dict[str, _Addable]:
    """Two dictionaries added entry by entry, in the order in which the entries first appear."""
    return {name: a.get(name, zero) + b.get(name, zero) for name in [*a, *(n for n in b if n not in a)]}
