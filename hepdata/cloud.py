"""A point cloud: what features make of a raw event, what storage keeps, and what the loader gives back.

Axes: N points of one cloud, E pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import nearest_name


@dataclass(frozen=True)
class PairList:
    """For every point its partners, as compressed sparse rows.

    Attributes:
        ptr: (N + 1,) int32; row i is idx[ptr[i]:ptr[i + 1]].
        idx: (E,) int32, ascending within a row.
    """

    ptr: NDArray[np.int32]
    idx: NDArray[np.int32]

    @property
    def n_pairs(self) -> int:
        """Directed pairs in the list."""
        return len(self.idx)

    def row(self, point: int) -> NDArray[np.int32]:
        """The partners of one point."""
        return self.idx[self.ptr[point] : self.ptr[point + 1]]

    def as_edges(self) -> NDArray[np.int32]:
        """(2, E): anchor and partner of every pair."""
        anchors = np.repeat(np.arange(len(self.ptr) - 1, dtype=np.int32), np.diff(self.ptr))
        return np.stack([anchors, self.idx])


@dataclass(frozen=True)
class PointCloud:
    """One event, or one sector of it, as points in the η–φ plane.

    Columns are attributes: `cloud.eta`, `cloud.particle_id`.

    Attributes:
        task: Name of the task.
        event_id: Event number in the source.
        sector: φ sector, 0 where the event is not divided.
        columns: One array of N values per column of the task's schema.
        positives: Points of the same particle, or None where pairs were not built or not read.
        negatives: Points to be told apart, or None.
        n_dropped: Points of the source that an acceptance cut left out; counted in the manifest, not stored.
    """

    task: str
    event_id: int
    sector: int
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    positives: PairList | None = field(default=None, repr=False)
    negatives: PairList | None = field(default=None, repr=False)
    n_dropped: int = field(default=0, repr=False, compare=False)

    @property
    def n_points(self) -> int:
        """Points in the cloud."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def coords(self) -> NDArray[np.float32]:
        """(N, 2): η and φ."""
        return np.stack([self.columns["eta"], self.columns["phi"]], axis=1)

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Underscored names are Python's own protocols (copy, pickle) asking before the fields exist.
        if name.startswith("_") or "columns" not in self.__dict__:
            raise AttributeError(name)
        try:
            return self.columns[name]
        except KeyError:
            known = list(self.columns)
            raise AttributeError(f"cloud has no column {name!r}: {nearest_name(name, known)}") from None
