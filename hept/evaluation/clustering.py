"""From embeddings to tracks: points of one cloud enter, a track label each leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, HDBSCAN

Method = Literal["dbscan", "hdbscan"]
NO_TRACK = -1


@dataclass(frozen=True)
class Clustering:
    """A clustering and its parameters.

    Attributes:
        method: `dbscan` joins points closer than `eps`; `hdbscan` finds its own scale, point group by point
            group.
        eps: Largest distance of neighbours in a track (DBSCAN alone).
        min_points: Smallest neighbourhood of a track's core point (DBSCAN), smallest track (HDBSCAN).

    Raises:
        ValueError: An unknown method, or a number out of range.
    """

    method: Method = "dbscan"
    eps: float = 0.2
    min_points: int = 3

    def __post_init__(self) -> None:
        if self.method not in ("dbscan", "hdbscan"):
            raise ValueError(f"method is {self.method!r}; it must be 'dbscan' or 'hdbscan'")
        if not 0 < self.eps < math.inf:
            raise ValueError(f"eps is {self.eps}; it must be positive and finite")
        least = 2 if self.method == "hdbscan" else 1
        if self.min_points < least or self.min_points != int(self.min_points):
            raise ValueError(f"min_points is {self.min_points}; it must be at least {least}, a whole number")


def cluster(
    embeddings: NDArray[np.floating],
    *,
    method: Method = "dbscan",
    eps: float = 0.2,
    min_points: int = 3,
) -> NDArray[np.int64]:
    """Track labels 0, 1, … of the points of one cloud, −1 for points in no track.

    Args:
        embeddings: (N, D).
        method: See `Clustering`.
        eps: See `Clustering`.
        min_points: See `Clustering`.

    Raises:
        ValueError: An unknown method, or a number out of range.
    """
    Clustering(method, eps, min_points)
    if len(embeddings) < max(min_points, 2):
        labels = np.full(len(embeddings), NO_TRACK, dtype=np.int64)
        labels[:] = 0 if method == "dbscan" and min_points == 1 else NO_TRACK
        return labels
    if method == "dbscan":
        found = DBSCAN(eps=eps, min_samples=min_points).fit_predict(embeddings)
    else:
        found = HDBSCAN(min_cluster_size=min_points, min_samples=2, copy=True).fit_predict(embeddings)
    return np.asarray(found, dtype=np.int64)
