"""Made the weights files `names-*.safetensors.gz`, which know their inputs by column names alone.

It ran once, with the last version that wrote such files, and does not run with a later one. Beside each file
lies what the network answered for the test cloud of the dataset that it was trained on: a later version must
answer the same. The wide layers of the head are zero, which compresses to nothing.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save

from hepdata.loader.dataset import open_dataset
from hept.evaluation.inference import run_model
from hept.model.weights import LAST, load_model
from hept.settings.config import load_config
from hept.training.trainer import fit

HERE = Path(__file__).parent
SMALL = ["model.n_layers=1", "model.hidden_dim=4", "model.n_heads=1", "model.block_size=4", "epochs=1"]
CHOSEN = ["data.features=[layer, pt, phi, r]", "data.coords=[eta, phi, z, phi]"]
MODELS = {
    "names-tracking": ("v2-tracking-parquet", "tracking-demo", []),
    "names-pileup": ("v2-pileup-parquet", "pileup-demo", []),
    "names-tracking-chosen": ("v2-tracking-parquet", "tracking-demo", CHOSEN),
    "names-tracking-flat": ("v2-tracking-parquet", "tracking-6k", ["model.periodic_phi=false"]),
}


def make(name: str, dataset: str, preset: str, changes: list[str]) -> None:
    """Train a few steps, and keep weights and outputs."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        fit(load_config(preset, [*SMALL, *changes]), HERE / dataset, run)
        with safe_open(run / LAST, "pt") as file:
            header = file.metadata()
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        state = {key: torch.zeros_like(w) if w.numel() > 10_000 else w for key, w in state.items()}
        content = save(state, metadata=header)
        (Path(folder) / "weights.safetensors").write_bytes(content)
        trained = load_model(Path(folder) / "weights.safetensors")
    (HERE / f"{name}.safetensors.gz").write_bytes(gzip.compress(content, mtime=0))
    ((out, _),) = run_model(trained, open_dataset(HERE / dataset), "test")
    np.save(HERE / f"{name}.npy", out.numpy())


if __name__ == "__main__":
    for name, (dataset, preset, changes) in MODELS.items():
        make(name, dataset, preset, changes)
