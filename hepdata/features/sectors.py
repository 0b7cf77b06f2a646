"""Overlapping φ sectors: the hits of each sector's cloud, and the home sector of each particle.

In: u, v and particle of J hits; out: hits per sector, and the home sector of every hit's particle.
Sector s of n is centred at φ = −2πs/n; its core is |v'| < slope·u' in the frame rotated by 2πs/n, and its
cloud has the hits of a core widened by the overlap factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan, pi, tan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hepdata.features.labels import NOISE

SectorEdge = Literal["exact", "published"]


@dataclass(frozen=True)
class Sectors:
    """A division of the φ circle.

    Attributes:
        n_sectors: How many; 1 means the whole event as one cloud.
        overlap: Factor on the slope of a sector's edges.
        edge: "exact" puts the edges of the cores at tan(π/n), where neighbours meet; "published" at
            arctan(π/n), as the authors' Tracking-6k has them: a little too narrow (at n = 10 the overlap
            covers the gaps, at small n hits would be lost).
    """

    n_sectors: int = 1
    overlap: float = 1.3
    edge: SectorEdge = "exact"

    @property
    def slope(self) -> float:
        """The slope of a core's edge in its own frame."""
        angle = pi / self.n_sectors
        return atan(angle) if self.edge == "published" else tan(angle)

    def select(self, sector: int, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which hits belong to the cloud of one sector."""
        if self.n_sectors == 1:
            return np.ones(len(u), dtype=np.bool_)
        return self._is_inside(sector, u, v, self.overlap * self.slope)

    def find_home(
        self, u: NDArray[np.float64], v: NDArray[np.float64], particle_id: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The sector that holds at least half of the hits of each hit's particle, −1 for noise.

        If no core holds half of them, the one with most; ties go to the lowest number.
        """
        if self.n_sectors == 1:
            return np.where(particle_id == NOISE, -1, 0)
        particle_k, particle_j = np.unique(particle_id, return_inverse=True)
        # By angle every hit has exactly one sector, which decides in gaps between the published cores.
        turns = -np.arctan2(v, u) * self.n_sectors / (2 * pi)
        votes = np.zeros((len(particle_k), self.n_sectors), dtype=np.int64)
        np.add.at(votes, (particle_j, np.rint(turns).astype(np.int64) % self.n_sectors), 1)
        for sector in range(self.n_sectors):
            inside = self._is_inside(sector, u, v, self.slope)
            votes[:, sector] += (len(u) + 1) * np.bincount(particle_j[inside], minlength=len(particle_k))
        home: NDArray[Any] = votes.argmax(axis=1)
        home[particle_k == NOISE] = -1
        return home[particle_j]

    def _is_inside(
        self, sector: int, u: NDArray[np.float64], v: NDArray[np.float64], slope: float
    ) -> NDArray[np.bool_]:
        angle = 2 * pi * sector / self.n_sectors
        along = u * np.cos(angle) - v * np.sin(angle)
        across = u * np.sin(angle) + v * np.cos(angle)
        return np.asarray(np.abs(across) < slope * along)
