"""Tracks from a tree of hits: embeddings, layers and modules of one event enter, a track label each leaves.

Single linkage joins the nearest hits first. Each join is a candidate: a set of hits, which scores

    layers^power + overlap · (modules − layers) − shared · (hits − modules)

where a layer or module counts once however many hits it has: a track has one hit on a module, sometimes two
modules of a layer. The best disjoint candidates are kept, found from the leaves up: a candidate replaces the
best ones inside it where it scores more than they do together.

Axes: N hits, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree

NO_TRACK = -1
# Default cut of edges, in units of the median nearest distance.
TYPICAL = 2.5


@dataclass(frozen=True)
class TreeChoice:
    """Parameters of the tree.

    Attributes:
        cut: Largest distance at which hits are joined; None takes 2.5 times the median distance of a hit of
            the event to its nearest.
        power: Of the number of layers.
        shared: Price of each further hit on a module.
        overlap: Gain for each further module of a layer.
        neighbours: Nearest hits of each hit among which edges are looked for.
        max_hits: Largest candidate.
        min_layers: Layers of a track at least.

    Raises:
        ValueError: A number out of range.
    """

    cut: float | None = None
    power: float = 2.0
    shared: float = 2.0
    overlap: float = 0.1
    neighbours: int = 12
    max_hits: int = 24
    min_layers: int = 3

    def __post_init__(self) -> None:
        for name in ("cut", "power"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive and finite")
        for name in ("shared", "overlap"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be finite and not negative")
        for name in ("neighbours", "max_hits", "min_layers"):
            if getattr(self, name) < 1 or getattr(self, name) != int(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1, a whole number")


def grow_tracks(
    embeddings: NDArray[np.floating],
    layer: NDArray[np.integer],
    module: NDArray[np.integer],
    choice: TreeChoice,
) -> NDArray[np.int64]:
    """Track labels 0, 1, … of the hits of one event, −1 for hits in no track.

    Args:
        embeddings: (N, D).
        layer: (N,) number of the layer, from 0.
        module: (N,) a number that tells modules apart.
        choice: Parameters.
    """
    cut = find_cut(embeddings) if choice.cut is None else choice.cut
    first, second = _span(embeddings, cut, choice.neighbours)
    return _keep_best(len(embeddings), first, second, layer, module, choice)


def find_cut(embeddings: NDArray[np.floating]) -> float:
    """A cut from the embeddings alone: 2.5 times the median distance of a hit to its nearest neighbour."""
    if len(embeddings) < 2:
        return 1.0
    points = np.ascontiguousarray(embeddings, dtype=np.float64)
    typical = float(np.median(cKDTree(points).query(points, 2)[0][:, 1]))
    return TYPICAL * typical if typical > 0 else 1.0


def _span(
    embeddings: NDArray[np.floating], cut: float, neighbours: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(E,) ends of the edges of the minimum spanning forest, shortest first."""
    n = len(embeddings)
    k = min(neighbours + 1, n)
    if k < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    points = np.ascontiguousarray(embeddings, dtype=np.float64)
    distance, neighbour = cKDTree(points).query(points, k, distance_upper_bound=cut)
    row, place = np.nonzero(np.isfinite(distance) & (neighbour != np.arange(n)[:, None]))
    column = neighbour[row, place]
    # A sparse matrix drops weights of 0; equal hits still come first.
    weight = distance[row, place] + 1e-12
    tree = minimum_spanning_tree(csr_array((weight, (row, column)), shape=(n, n))).tocoo()
    order = np.argsort(tree.data, kind="stable")
    return tree.row[order].astype(np.int64), tree.col[order].astype(np.int64)


def _keep_best(
    n: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    layer: NDArray[np.integer],
    module: NDArray[np.integer],
    choice: TreeChoice,
) -> NDArray[np.int64]:
    """Labels of the best disjoint candidates; a plain loop, since each join needs the one before."""
    n_all = n + len(first)
    parent = list(range(n_all))
    # Of each node: hits, layers as bits, modules; best score inside it, and whether it is itself the best.
    n_hits = [1] * n + [0] * len(first)
    layers = [1 << int(number) for number in layer] + [0] * len(first)
    modules: list[frozenset[int] | None] = [frozenset((int(number),)) for number in module]
    modules += [None] * len(first)
    best = [0.0] * n_all
    children: list[tuple[int, int]] = []
    is_kept = [False] * n_all
    powers = [float(count) ** choice.power for count in range(int(layer.max(initial=0)) + 2)]
    node = n
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        while parent[b] != b:
            parent[b] = b = parent[parent[b]]
        parent[a] = parent[b] = node
        children.append((a, b))
        count = n_hits[node] = n_hits[a] + n_hits[b]
        inside = best[a] + best[b]
        ours, theirs = modules[a], modules[b]
        if count <= choice.max_hits and ours is not None and theirs is not None:
            bits = layers[node] = layers[a] | layers[b]
            union = modules[node] = ours | theirs
            n_layers, n_modules = bits.bit_count(), len(union)
            if n_layers >= choice.min_layers:
                score = (
                    powers[n_layers]
                    + choice.overlap * (n_modules - n_layers)
                    - choice.shared * (count - n_modules)
                )
                if score > inside:
                    inside, is_kept[node] = score, True
        best[node] = inside
        node += 1
    return _label(n, children, is_kept)


def _label(n: int, children: list[tuple[int, int]], is_kept: list[bool]) -> NDArray[np.int64]:
    """Labels from the topmost kept nodes; numbered by their first hit."""
    label = [NO_TRACK] * (n + len(children))
    for node in range(n + len(children) - 1, n - 1, -1):
        own = label[node] if label[node] >= 0 else node if is_kept[node] else NO_TRACK
        if own >= 0:
            for child in children[node - n]:
                label[child] = own
    return number_labels(np.array(label[:n], dtype=np.int64))


def number_labels(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same tracks, renumbered 0, 1, … by their first hits."""
    is_in = label >= 0
    _, first, number = np.unique(label[is_in], return_index=True, return_inverse=True)
    numbered = np.full(len(label), NO_TRACK, dtype=np.int64)
    numbered[is_in] = np.argsort(np.argsort(first))[number]
    return numbered
