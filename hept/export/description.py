"""What an exported file says about itself: a model enters, text by name leaves."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from hepdata import __version__
from hept.export.graph import ModelGraph, unique_columns
from hept.model.trained import TrainedModel
from hept.tracks.finder import Clustering

_PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")


def describe_inputs(trained: TrainedModel, graph: ModelGraph) -> list[dict[str, object]]:
    """Name, type, shape, unit and meaning of every input, in order."""
    inputs: list[dict[str, object]] = []
    if graph.inputs == "prepared":
        for name, part in (("features", trained.features), ("coords", trained.coords)):
            inputs.append(
                {
                    "name": name,
                    "type": "float32",
                    "shape": ["points", len(part)],
                    "meaning": "stored columns times their scales",
                    "columns": [{"column": e.column, "scale": e.scale, "unit": e.unit} for e in part],
                }
            )
    else:
        for entry in unique_columns(trained.features, trained.coords):
            is_class = bool(entry.n_classes)
            meaning = f"class, 0 … {entry.n_classes - 1}" if is_class else "stored column"
            kind = "int64" if is_class else "float32"
            inputs.append(
                {
                    "name": entry.column,
                    "type": kind,
                    "shape": ["points"],
                    "unit": entry.unit,
                    "meaning": meaning,
                }
            )
    meaning = "first point of each cloud, then the number of points: [0, n] for one cloud"
    return [
        *inputs,
        {"name": "offsets", "type": "int64", "shape": ["borders"], "unit": "", "meaning": meaning},
    ]


def describe_output(trained: TrainedModel, graph: ModelGraph) -> dict[str, object]:
    """Name, shape and meaning of the output."""
    n = graph.n_outputs
    if trained.is_embedding:
        meaning = "points of one group lie close together (Euclidean distance)"
        return {"name": "embedding", "type": "float32", "shape": ["points", n], "meaning": meaning}
    shape = ["points"] if n == 1 else ["points", n]
    meaning = "probability of the label, the sigmoid of the model's logit"
    return {"name": "score", "type": "float32", "shape": shape, "meaning": meaning}


def describe_model(trained: TrainedModel, graph: ModelGraph, clustering: Clustering | None) -> dict[str, str]:
    """Metadata of an exported file: short texts as they are, everything else as JSON."""
    versions = {"python": sys.version.split()[0], "hept": __version__}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "producer": f"hept {__version__}",
        "task": trained.task,
        "objective": trained.objective,
        "kind": trained.config.model.kind,
        "inputs": json.dumps(describe_inputs(trained, graph)),
        "output": json.dumps(describe_output(trained, graph)),
        "features": json.dumps([asdict(entry) for entry in trained.features]),
        "coords": json.dumps([asdict(entry) for entry in trained.coords]),
        "clustering": json.dumps(None if clustering is None else asdict(clustering)),
        "versions": json.dumps(versions),
    }
