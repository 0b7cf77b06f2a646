"""Small models with drawn weights, on disk as a training leaves them."""

import pytest
import torch

from hepdata.schema import SCHEMAS
from hept.evaluation.tuning import save_clustering
from hept.model.build import build_network
from hept.model.weights import ModelCard, load_model, save_weights
from hept.settings.load import load_config
from hept.tracks.finder import Clustering

SMALL = [
    "model.n_layers=1",
    "model.hidden_dim=8",
    "model.n_heads=2",
    "model.block_size=20",
    "model.n_tables=2",
    "model.n_regions=9",
    "model.n_neighbors=4",
]


def write_model(folder, task="tracking", kind="hept"):
    """A run folder with weights and a tuned clustering; standardised inputs where the preset has them."""
    from dataclasses import replace

    config = load_config(f"{task}-demo", [*SMALL, f"model.kind={kind}"])
    schema = SCHEMAS[task]
    features = list(schema.features)
    if task == "pileup":
        # A momentum with a heavy tail, as the laptop preset reads it.
        at = [entry.column for entry in features].index("pt")
        features[at] = replace(features[at], compression="log", shift=1.5, spread=0.7)
    torch.manual_seed(0)
    is_embedding = schema.target.objective == "pairs"
    network = build_network(config.model, features, schema.coordinates, is_embedding=is_embedding)
    if kind == "hept":
        # In trained models some queries are far from every key: here all of the first head.
        with torch.no_grad():
            network.body.blocks[0].attention.w_q.weight[:8] *= 1e3
    card = ModelCard(
        config.model_dump(),
        schema.target.objective,
        tuple(features),
        schema.coordinates,
        dataset="0123abcd",
        epoch=7,
        metrics={"ap@0.9": 0.8125},
    )
    folder.mkdir()
    save_weights(folder / "best.safetensors", network.state_dict(), card)
    save_clustering(folder / "best.safetensors", Clustering("dbscan", eps=0.15, min_points=2))
    return folder


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """The run folder of a small model: `run_of("tracking", "hept")`, made once."""
    made = {}

    def find(task="tracking", kind="hept"):
        if (task, kind) not in made:
            made[task, kind] = write_model(tmp_path_factory.mktemp("runs") / "run", task, kind)
        return made[task, kind]

    return find


@pytest.fixture(scope="session")
def exported(run_of, tmp_path_factory):
    """A small tracking model as ONNX, and the model itself."""
    from hept import export_model

    out = tmp_path_factory.mktemp("onnx") / "model.onnx"
    return export_model(run_of(), out, quick=True, threads=1), load_model(run_of())
