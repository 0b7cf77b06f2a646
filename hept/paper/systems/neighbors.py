"""Nearest neighbours of every point in its own cloud: coordinates enter, a table of indices leaves.

Axes: N points, K neighbours, D dimensions, B clouds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from hepdata.schema import PLANE
from hept.attention.clouds import Clouds

# A tree is faster in few dimensions; comparing all pairs in chunks is faster in more.
MAX_TREE_DIMENSIONS = 6
CHUNK_DISTANCES = 20_000_000


@dataclass(frozen=True)
class Neighbors:
    """The K nearest other points of each point.

    Attributes:
        index: (N, K) int64 on the flat point axis; padded with the point itself if its cloud has too few.
        is_real: (N, K) bool, False for padding.
    """

    index: Tensor
    is_real: Tensor


def find_neighbors(
    positions: Tensor, clouds: Clouds, n_neighbors: int, *, periods: Mapping[int, float] | None = None
) -> Neighbors:
    """Find the nearest other points of the same cloud.

    Args:
        positions: (N, D).
        clouds: Which points belong together.
        n_neighbors: Neighbours per point, K.
        periods: Periods of the columns that are angles.

    Raises:
        ValueError: `n_neighbors` is below one.
    """
    if n_neighbors < 1:
        raise ValueError(f"n_neighbors is {n_neighbors}; a graph needs at least one")
    bounds = clouds.offsets.tolist()
    with torch.no_grad():
        parts = [
            _in_cloud(positions[a:b].detach(), n_neighbors, periods or {}) + a
            for a, b in itertools.pairwise(bounds)
        ]
        index = torch.cat(parts)
        return Neighbors(index, index != torch.arange(len(index), device=index.device)[:, None])


class GraphMemory:
    """Caches the graph of the last clouds: it is built once for all layers of a forward pass."""

    def __init__(self, n_neighbors: int, periods: Mapping[int, float] | None = None) -> None:
        self.n_neighbors = n_neighbors
        self.periods = {column: period for column, period in (periods or {}).items() if column < 2}
        self._clouds: Clouds | None = None
        self._graph: Neighbors | None = None

    def of(self, coords: Tensor, clouds: Clouds) -> Neighbors:
        """The graph in (η, φ), the first two coordinates."""
        # Each forward pass makes a new `Clouds`: the same object means the same points.
        if self._clouds is not clouds or self._graph is None:
            self._graph = find_neighbors(coords[:, PLANE], clouds, self.n_neighbors, periods=self.periods)
            self._clouds = clouds
        return self._graph


def _in_cloud(positions: Tensor, n_neighbors: int, periods: Mapping[int, float]) -> Tensor:
    n = positions.shape[0]
    own = torch.arange(n, device=positions.device)[:, None]
    k = min(n_neighbors, n - 1)
    if k <= 0:
        return own.expand(n, n_neighbors)
    if positions.device.type == "cpu" and positions.shape[1] <= MAX_TREE_DIMENSIONS:
        found = _by_tree(positions, k, periods)
    else:
        found = _by_distance(positions, k, periods)
    # Coinciding points come in any order: remove the point itself wherever it is, or the last neighbour if it
    # is missing.
    is_own = found == own
    is_own[:, -1] |= ~is_own.any(1)
    kept = found[~is_own].view(n, k)
    return torch.cat([kept, own.expand(n, n_neighbors - k)], 1)


def _by_tree(positions: Tensor, k: int, periods: Mapping[int, float]) -> Tensor:
    points = positions.double().numpy()
    box = None
    if periods:
        points = points.copy()
        box = [periods.get(column, 0.0) for column in range(points.shape[1])]
        for column, period in periods.items():
            points[:, column] %= period
    return torch.from_numpy(cKDTree(points, boxsize=box).query(points, k=k + 1)[1]).long()


def _by_distance(positions: Tensor, k: int, periods: Mapping[int, float]) -> Tensor:
    rows = max(1, CHUNK_DISTANCES // len(positions))
    found = []
    for first in range(0, len(positions), rows):
        chunk = positions[first : first + rows]
        if periods:
            apart = (chunk[:, None] - positions[None]).abs()
            for column, period in periods.items():
                apart[..., column] = torch.minimum(apart[..., column], period - apart[..., column] % period)
            distance = apart.square().sum(-1)
        else:
            distance = torch.cdist(chunk, positions)
        found.append(distance.topk(k + 1, dim=1, largest=False).indices)
    return torch.cat(found)
