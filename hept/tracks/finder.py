"""The tracks of one event: embeddings and columns of its hits enter, a track label each leaves.

By the tree with its steps, or by DBSCAN or HDBSCAN for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, HDBSCAN

from hept.tracks.helix import HitError
from hept.tracks.refinement import (
    HitPlaces,
    Labels,
    StepChoice,
    add_lone_hits,
    drop_bad_tracks,
    merge_pieces,
    split_mixtures,
)
from hept.tracks.tree import NO_TRACK, TreeChoice, find_cut, grow_tracks, number_labels

Method = Literal["tree", "dbscan", "hdbscan"]
METHODS: tuple[Method, ...] = ("tree", "dbscan", "hdbscan")
Columns = Mapping[str, NDArray[Any]]
# Called after every step with its name and the labels.
Watch = Callable[[str, Labels], None]
# Exclusive upper bound of volume, layer and module numbers.
_MODULES, _LAYERS = 1 << 31, 1 << 15


@dataclass(frozen=True)
class Clustering:
    """How embeddings become tracks.

    Attributes:
        method: "tree" with the steps after it; "dbscan" joins points closer than `eps`; "hdbscan" finds its
            own scale, point group by point group.
        eps: Largest distance of neighbours in a track (DBSCAN alone).
        min_points: Smallest neighbourhood of a track's core point (DBSCAN), smallest track (HDBSCAN).
        tree: Parameters of the tree.
        steps: What follows it.

    Raises:
        ValueError: An unknown method, or a number out of range.
    """

    method: Method = "tree"
    eps: float = 0.2
    min_points: int = 3
    tree: TreeChoice = field(default_factory=TreeChoice)
    steps: StepChoice = field(default_factory=StepChoice)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; it must be 'tree', 'dbscan' or 'hdbscan'")
        if not 0 < self.eps < np.inf:
            raise ValueError(f"eps is {self.eps}; it must be positive and finite")
        least = 2 if self.method == "hdbscan" else 1
        if self.min_points < least or self.min_points != int(self.min_points):
            raise ValueError(f"min_points is {self.min_points}; it must be at least {least}, a whole number")

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Clustering:
        """The choice from its JSON values; files of earlier versions have no tree.

        Raises:
            ValueError, TypeError: Not such values.
        """
        values = dict(content)
        tree = TreeChoice(**values.pop("tree", {}))
        steps = dict(values.pop("steps", {}))
        error = HitError(**steps.pop("error", {}))
        return cls(**values, tree=tree, steps=StepChoice(**steps, error=error))

    @property
    def name(self) -> str:
        """The choice in a few words."""
        if self.method == "tree":
            cut = "found for each event" if self.tree.cut is None else f"{self.tree.cut:.3g}"
            return f"tree (cut {cut}, {self.steps.passes} passes)"
        scale = f"eps {self.eps:.3g}, " if self.method == "dbscan" else ""
        return f"{self.method} ({scale}at least {self.min_points} hits)"


def find_tracks(
    embeddings: NDArray[np.floating],
    columns: Columns,
    clustering: Clustering,
    watch: Watch | None = None,
) -> Labels:
    """Track labels 0, 1, … of the hits of one event, −1 for hits in no track.

    Args:
        embeddings: (N, D).
        columns: Of the hits. The tree uses `layer`, `volume_id`, `layer_id` and `module_id` where they are
            there; its steps need `r`, `phi` and `z`.
        clustering: How.
        watch: Told of every step of the tree.
    """
    if clustering.method == "tree":
        return _follow_tree(embeddings, columns, clustering, watch or (lambda _, __: None))
    return cluster(embeddings, method=clustering.method, eps=clustering.eps, min_points=clustering.min_points)


def cluster(
    embeddings: NDArray[np.floating],
    *,
    method: Literal["dbscan", "hdbscan"] = "dbscan",
    eps: float = 0.2,
    min_points: int = 3,
) -> Labels:
    """Labels by DBSCAN or HDBSCAN; see `Clustering`.

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


def _follow_tree(
    embeddings: NDArray[np.floating], columns: Columns, clustering: Clustering, watch: Watch
) -> Labels:
    """Grow tracks and improve them; then again from the hits that are left."""
    n, steps = len(embeddings), clustering.steps
    layer, module = number_modules(columns, n)
    places = locate(embeddings, columns, module)
    cut = clustering.tree.cut or find_cut(embeddings)
    label = np.full(n, NO_TRACK, dtype=np.int64)
    for number in range(steps.passes):
        left = np.flatnonzero(label < 0)
        tree = replace(clustering.tree, cut=cut * steps.widen**number)
        grown = grow_tracks(embeddings[left], layer[left], module[left], tree)
        label[left] = np.where(grown >= 0, grown + label.max(initial=NO_TRACK) + 1, NO_TRACK)
        name = f"pass {number + 1}: " if steps.passes > 1 else ""
        watch(f"{name}tree", label)
        if places is not None:
            label = _improve(label, places, steps, cut * steps.reach, lambda s, at: watch(name + s, at))  # noqa: B023
    return number_labels(label)


def _improve(label: Labels, places: HitPlaces, steps: StepChoice, reach: float, watch: Watch) -> Labels:
    quality, error = steps.quality, steps.error
    if quality is not None:
        label = split_mixtures(label, places, quality, error)
        watch("mixtures split", label)
        label = drop_bad_tracks(label, places, quality, error)
        watch("bad tracks out", label)
    if steps.merge is not None:
        label = merge_pieces(label, places, reach, steps.merge, error)
        watch("pieces merged", label)
    if steps.add is not None:
        label = add_lone_hits(label, places, reach, steps.add, error, quality or np.inf)
        watch("lone hits added", label)
    return label


def number_modules(columns: Columns, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Layer and module of every hit; where they are not stored, each hit has its own of up to 64 layers."""
    own = np.arange(n)
    layer = columns["layer"].astype(np.int64) if "layer" in columns else own % 64
    if "module_id" not in columns:
        return layer, own
    module = columns["module_id"].astype(np.int64)
    for name, size in (("layer_id", _MODULES), ("volume_id", _MODULES * _LAYERS)):
        module = module + size * columns[name].astype(np.int64) if name in columns else module
    return layer, module


def locate(
    embeddings: NDArray[np.floating], columns: Columns, module: NDArray[np.integer]
) -> HitPlaces | None:
    """Where the hits are; None where that is not stored."""
    if not {"r", "phi", "z"} <= set(columns):
        return None
    r, phi, z = (columns[name].astype(np.float64) for name in ("r", "phi", "z"))
    return HitPlaces(embeddings, r * np.cos(phi), r * np.sin(phi), z, module)
