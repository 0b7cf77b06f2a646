"""Runs an exported model on the points of a CSV file, with onnxruntime and numpy alone.

    python inference.py model.onnx points.csv [EPS]

The file has one line a point and a column for each input of the model, in the units that the model names.
Prints "point,track" for a model that embeds (-1: no track), or "point,score".
"""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

import numpy as np
import onnxruntime

# Distances that are in memory at a time.
PAIRS_AT_A_TIME = 10_000_000


def read_columns(path: str, session: onnxruntime.InferenceSession) -> dict[str, Any]:
    """The inputs of a model from a CSV file with a header, as arrays by name."""
    with open(path, newline="", encoding="utf-8") as file:  # noqa: PTH123
        rows = list(csv.DictReader(file))
    inputs: dict[str, Any] = {}
    for entry in session.get_inputs():
        if entry.name == "offsets":
            # All points form one cloud. Offsets of several clouds are [0, n_1, n_1 + n_2, …].
            inputs["offsets"] = np.array([0, len(rows)], np.int64)
            continue
        if not rows or entry.name not in rows[0]:
            sys.exit(f"{path}: found no column {entry.name!r}; expected every input of the model")
        kind = np.int64 if entry.type == "tensor(int64)" else np.float32
        inputs[entry.name] = np.array([float(row[entry.name]) for row in rows]).astype(kind)
    return inputs


def find_groups(embedding: Any, eps: float, min_points: int) -> Any:
    """Join points that are nearer than `eps`, directly or through others; small groups get -1.

    This is DBSCAN without a density: every pair counts. All pairs are compared, in chunks of rows.
    """
    n = len(embedding)
    group = np.arange(n)
    squares = np.square(embedding).sum(1)
    edges = []
    step = max(1, PAIRS_AT_A_TIME // max(1, n))
    for first in range(0, n, step):
        part = embedding[first : first + step]
        distance = squares[first : first + step, None] + squares[None] - 2 * part @ embedding.T
        i, j = np.nonzero(distance < eps**2)
        edges.append(np.stack([i + first, j])[:, i + first < j])
    i, j = np.concatenate(edges, 1)
    while True:
        # Every point takes the smallest label among its neighbours, until nothing changes.
        smallest = np.minimum(group[i], group[j])
        before = group.copy()
        np.minimum.at(group, i, smallest)
        np.minimum.at(group, j, smallest)
        group = group[group]
        if np.array_equal(group, before):
            break
    _, number, count = np.unique(group, return_inverse=True, return_counts=True)
    kept = np.cumsum(count >= min_points) - 1
    return np.where(count[number] >= min_points, kept[number], -1)


def main(model: str, points: str, eps: str | None = None) -> None:
    """Print a track or a score for every point."""
    # Some versions, such as 1.23, fuse a float64 product into an operator that they lack.
    session = onnxruntime.InferenceSession(
        model, providers=["CPUExecutionProvider"], disabled_optimizers=["MatmulTransposeFusion"]
    )
    # Written by `hept-train export`: inputs with their units, clustering, certificate, versions.
    described = session.get_modelmeta().custom_metadata_map
    (out,) = session.run(None, read_columns(points, session))
    if session.get_outputs()[0].name == "score":
        lines = [
            "point,score",
            *(f"{i},{score:.6g}" for i, score in enumerate(out.reshape(len(out), -1)[:, 0])),
        ]
    else:
        tuned = json.loads(described.get("clustering", "null")) or {}
        nearest = float(eps) if eps is not None else tuned.get("eps", 0.2)
        tracks = find_groups(out.astype(np.float64), nearest, tuned.get("min_points", 3))
        lines = ["point,track", *(f"{i},{track}" for i, track in enumerate(tracks))]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
