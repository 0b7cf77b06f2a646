"""Statistics of a dataset, counted while it is written: clouds, points, pairs, particles, ranges of columns.

Statistics of shards can be added, so that no file is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt

from hepdata.cloud import PointCloud

_Number = TypeVar("_Number", int, float)


class ColumnStatistics(BaseModel):
    """Range and sum of one column; None if there is no finite value.

    Attributes:
        minimum: Smallest finite value.
        maximum: Largest finite value.
        total: Sum of the finite values: for a boolean column, how many are true.
        n_not_finite: NaN and infinite values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None
    total: FiniteFloat = 0.0
    n_not_finite: NonNegativeInt = 0

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
        counts: Counts of labels, e.g. "particles", "scored_leading".
        columns: One entry per column.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    n_clouds: NonNegativeInt = 0
    n_points: NonNegativeInt = 0
    n_points_min: NonNegativeInt | None = None
    n_points_max: NonNegativeInt | None = None
    n_positives: NonNegativeInt = 0
    n_negatives: NonNegativeInt = 0
    counts: dict[str, NonNegativeInt] = {}
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


class Tally:
    """Accumulates the statistics of clouds, one cloud at a time.

    Uses plain numbers: creating pydantic models for every column of every cloud takes longer than counting.
    """

    def __init__(self) -> None:
        self._n_points: list[int] = []
        self._n_positives = self._n_negatives = 0
        self._counts: dict[str, int] = {}
        self._columns: dict[str, _ColumnTally] = {}

    def add(self, cloud: PointCloud) -> None:
        """Count one more cloud."""
        self._n_points.append(cloud.n_points)
        self._n_positives += cloud.positives.n_pairs if cloud.positives is not None else 0
        self._n_negatives += cloud.negatives.n_pairs if cloud.negatives is not None else 0
        for name, count in _count_labels(cloud.columns).items():
            self._counts[name] = self._counts.get(name, 0) + count
        for name, values in cloud.columns.items():
            self._columns.setdefault(name, _ColumnTally()).add(values)

    def total(self) -> Statistics:
        """The statistics of all clouds so far."""
        return Statistics(
            n_clouds=len(self._n_points),
            n_points=sum(self._n_points),
            n_points_min=min(self._n_points, default=None),
            n_points_max=max(self._n_points, default=None),
            n_positives=self._n_positives,
            n_negatives=self._n_negatives,
            counts=self._counts,
            columns={name: column.total() for name, column in self._columns.items()},
        )


def count_cloud(cloud: PointCloud) -> Statistics:
    """The statistics of one cloud."""
    tally = Tally()
    tally.add(cloud)
    return tally.total()


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


class _ColumnTally:
    """One column of the clouds so far."""

    def __init__(self) -> None:
        self._minimum, self._maximum = math.inf, -math.inf
        self._total, self._n_not_finite = 0.0, 0

    def add(self, values: NDArray[np.generic]) -> None:
        """Count the values of one more cloud."""
        if not len(values):
            return
        if values.dtype.kind == "b":
            n_true = int(np.count_nonzero(values))
            self._extend(float(n_true == len(values)), float(n_true > 0), n_true)
            return
        # ufunc.reduce is faster than array.min(), which is partly implemented in Python.
        minimum, maximum = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
        # Both propagate NaN, so a column of finite values needs no copy.
        if not (math.isfinite(minimum) and math.isfinite(maximum)):
            finite = values[np.isfinite(values)]
            self._n_not_finite += len(values) - len(finite)
            self.add(finite)
            return
        self._extend(minimum, maximum, float(np.add.reduce(values, dtype=np.float64)))

    def total(self) -> ColumnStatistics:
        """The statistics of all values so far."""
        has_any = self._minimum <= self._maximum
        return ColumnStatistics(
            minimum=self._minimum if has_any else None,
            maximum=self._maximum if has_any else None,
            total=self._total,
            n_not_finite=self._n_not_finite,
        )

    def _extend(self, minimum: float, maximum: float, total: float) -> None:
        self._minimum = min(self._minimum, minimum)
        self._maximum = max(self._maximum, maximum)
        self._total += total


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
