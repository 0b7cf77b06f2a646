"""Clouds in the published layout: one pickle per cloud, with every published tensor.

Features and positions are 32-bit floats, all integers 64-bit; pairs are (2, E). The published files also
contain the graph of the 60 nearest neighbours in (η, φ), undirected and with self loops, for graph networks:
a ninth of the bytes. Our datasets have no such graph, but loading a published file always reads it. With
6,850 points and 3.84 M pairs a file has 69.9 MB, like the authors' own files. The files are dictionaries of
tensors, which torch.load reads without torch_geometric or further arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from hepdata.cloud import PointCloud
from hepdata.schema import TRACKING

N_NEIGHBORS = 60
FLOATS = {"pt": "pt", "eta": "particle_eta"}
INTEGERS = {
    "layer": "layer",
    "particle_id": "particle_id",
    "reconstructable": "is_reconstructable",
    "sector": "home_sector",
    "n_hits": "n_hits",
    "n_layers_hit": "n_layers_hit",
}


def write_pickle(path: Path, cloud: PointCloud, *, has_graph: bool = True) -> None:
    """Save one cloud in the published layout, with or without the neighbour graph."""
    tensors = published_tensors(cloud, has_graph=has_graph)
    torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, path)


def published_tensors(cloud: PointCloud, *, has_graph: bool = True) -> dict[str, NDArray[Any]]:
    """The arrays of a published file, with or without the neighbour graph."""
    features = [entry for entry in TRACKING.features if entry.column != "layer"]
    scaled = [cloud.columns[entry.column] * np.float64(entry.scale) for entry in features]
    tensors: dict[str, NDArray[Any]] = {
        "x": np.stack(scaled, axis=1).astype(np.float32),
        "edge_index": np.empty((2, 0), np.int64),
        "y": np.empty(0, np.float32),
        "pos": cloud.coords[:, :2],
        "evtid": np.array([cloud.event_id]),
        "s": np.array([cloud.sector]),
    }
    if has_graph:
        tensors["knn_edge_index_k60"] = neighbor_graph(cloud.coords[:, :2], min(N_NEIGHBORS, cloud.n_points))
    tensors |= {name: cloud.columns[ours].astype(np.float32) for name, ours in FLOATS.items()}
    tensors |= {name: cloud.columns[ours].astype(np.int64) for name, ours in INTEGERS.items()}
    if cloud.positives is not None and cloud.negatives is not None:
        pairs = [cloud.positives.as_edges(), cloud.negatives.as_edges()]
        tensors["point_pairs_index_rad"] = np.concatenate(pairs, axis=1).astype(np.int64)
    return tensors


def neighbor_graph(points: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """(2, E): every point with its `k` nearest points, including itself; each pair once in each direction."""
    _, neighbors = KDTree(points).query(points, k=k)
    anchors = np.repeat(np.arange(len(points)), k)
    partners = neighbors.reshape(-1)
    both = np.concatenate([anchors * len(points) + partners, partners * len(points) + anchors])
    return np.stack(np.divmod(np.unique(both), len(points)))
