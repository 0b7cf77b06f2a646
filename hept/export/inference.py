"""Runs an exported model on the points of a CSV file, with onnxruntime and numpy alone.

    python inference.py model.onnx points.csv [LIMIT]

The file has one line a point and a column for each input of the model, in the units that the model names.
Prints "point,track" for a model that embeds (-1: no track), or "point,score".

Tracks are found as was tuned for the model (its metadata "clustering"): by the tree, which also uses the
columns `layer`, `volume_id`, `layer_id` and `module_id`; else points nearer than `eps` are joined. LIMIT
replaces the tuned distance. What the package does after the tree is not here: helix fits that take wrong hits
out, merge and complete tracks, and further passes over the hits that are left.
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


def read_columns(path: str) -> dict[str, Any]:
    """The columns of a CSV file of numbers with a header, as arrays by name."""
    with open(path, newline="", encoding="utf-8") as file:  # noqa: PTH123
        header, *rows = list(csv.reader(file)) or [[]]
    try:
        table = np.array(rows, np.float64).reshape(len(rows), len(header))
    except ValueError as error:
        sys.exit(f"{path}: expected one number for each of {len(header)} columns in every line ({error})")
    return dict(zip(header, table.T, strict=True))


def make_inputs(columns: dict[str, Any], session: onnxruntime.InferenceSession) -> dict[str, Any]:
    """The inputs of a model: columns in its types, and all points as one cloud."""
    inputs: dict[str, Any] = {}
    n = len(next(iter(columns.values()), ()))
    for entry in session.get_inputs():
        if entry.name == "offsets":
            # All points form one cloud. Offsets of several clouds are [0, n_1, n_1 + n_2, …].
            inputs["offsets"] = np.array([0, n], np.int64)
        elif entry.name not in columns:
            sys.exit(f"found no column {entry.name!r}; expected every input of the model")
        else:
            kind = np.int64 if entry.type == "tensor(int64)" else np.float32
            inputs[entry.name] = columns[entry.name].astype(kind)
    return inputs


def find_pairs(embedding: Any, limit: float) -> Any:
    """Pairs (E, 2) of points that are nearer than `limit`, the nearest first; all are compared, in chunks."""
    n = len(embedding)
    squares = np.square(embedding).sum(1)
    step = max(1, PAIRS_AT_A_TIME // max(1, n))
    found = [np.zeros((3, 0))]
    for first in range(0, n, step):
        part = embedding[first : first + step]
        distance = squares[first : first + step, None] + squares[None] - 2 * part @ embedding.T
        i, j = np.nonzero(distance < limit**2)
        kept = i + first < j
        found.append(np.stack([distance[i, j], i + first, j])[:, kept])
    pairs = np.concatenate(found, 1)
    return pairs[1:, np.argsort(pairs[0], kind="stable")].T.astype(np.int64)


def find_root(parent: list[int], i: int) -> int:
    """The point that stands for the set of a point."""
    while parent[i] != i:
        parent[i] = i = parent[parent[i]]
    return i


def join_groups(pairs: Any, n: int, min_points: int) -> list[list[int]]:
    """Points that are joined by pairs, directly or through others: DBSCAN without its density condition."""
    parent = list(range(n))
    for i, j in pairs:
        a, b = find_root(parent, i), find_root(parent, j)
        parent[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for i in range(n):
        groups.setdefault(find_root(parent, i), []).append(i)
    return [group for group in groups.values() if len(group) >= min_points]


def grow_tracks(pairs: Any, layer: Any, module: Any, tree: dict[str, Any]) -> list[list[int]]:
    """Join the nearest hits first; of all sets on the way, keep the disjoint ones that score best together.

    A set scores layers^power + overlap · (modules − layers) − shared · (hits − modules).
    """
    parent = list(range(len(layer)))
    hits: list[list[int] | None] = [[i] for i in parent]
    best: list[tuple[float, list[list[int]]]] = [(0.0, []) for _ in parent]
    for i, j in pairs:
        a, b = find_root(parent, i), find_root(parent, j)
        if a == b:
            continue
        if len(best[a][1]) < len(best[b][1]):
            a, b = b, a
        score, kept = best[a][0] + best[b][0], best[a][1]
        kept.extend(best[b][1])
        ours, theirs = hits[a], hits[b]
        both = ours + theirs if ours and theirs and len(ours) + len(theirs) <= tree["max_hits"] else None
        if both is not None:
            n_layers, n_modules = len({layer[k] for k in both}), len({module[k] for k in both})
            own = n_layers ** tree["power"] + tree["overlap"] * (n_modules - n_layers)
            own -= tree["shared"] * (len(both) - n_modules)
            if n_layers >= tree["min_layers"] and own > score:
                score, kept = own, [both]
        parent[b], hits[a], best[a] = a, both, (score, kept)
    return [track for i, root in enumerate(parent) if i == root for track in best[i][1]]


def find_tracks(embedding: Any, columns: dict[str, Any], chosen: dict[str, Any], limit: float | None) -> Any:
    """A track label for every point, -1 for none, numbered by their first points."""
    n = len(embedding)
    is_tree = chosen["method"] == "tree" and "layer" in columns
    limit = limit if limit is not None else chosen["tree"]["cut"] if is_tree else chosen["eps"]
    if limit is None:
        sys.exit("the model names no cut, which differs from event to event; give LIMIT")
    pairs = find_pairs(embedding.astype(np.float64), limit)
    if is_tree:
        numbers = [columns[name] for name in ("volume_id", "layer_id", "module_id") if name in columns]
        # Without numbers of modules, each hit has one of its own.
        module = list(zip(*numbers, strict=True)) if "module_id" in columns else list(range(n))
        tracks = grow_tracks(pairs, columns["layer"], module, chosen["tree"])
    else:
        tracks = join_groups(pairs, n, chosen["min_points"])
    label = np.full(n, -1)
    for number, track in enumerate(sorted(tracks, key=min)):
        label[track] = number
    return label


def main(model: str, points: str, limit: str | None = None) -> None:
    """Print a track or a score for every point."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    columns = read_columns(points)
    (out,) = session.run(None, make_inputs(columns, session))
    if session.get_outputs()[0].name == "score":
        lines = [
            "point,score",
            *(f"{i},{score:.6g}" for i, score in enumerate(out.reshape(len(out), -1)[:, 0])),
        ]
    else:
        # Written by `hept-train export`, beside inputs with their units, certificate and versions.
        chosen = json.loads(session.get_modelmeta().custom_metadata_map["clustering"])
        if chosen is None:
            sys.exit(
                "no clustering was tuned for the model; run hept-train tune-clustering, then export again"
            )
        label = find_tracks(out, columns, chosen, None if limit is None else float(limit))
        lines = ["point,track", *(f"{i},{track}" for i, track in enumerate(label))]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
