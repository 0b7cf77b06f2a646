"""`python -m benchmarks.laptop [FOLDER]`: results of ten minutes on a laptop, compared with simpler models.

Simulates and builds both datasets, trains HEPT, a plain MLP and HEPT with the standard kernel with the
laptop presets and the same seed, evaluates them on the test split, and prints one table with baselines.
Tracking clouds are made as those of the paper's tracking-6k: dense events, cut into ten φ sectors of about
6,000 hits. It takes about half an hour on 2 cores; a second call only makes what is missing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from hepdata.loader.dataset import Dataset, open_dataset
from hepdata.progress_bar import ProgressBar
from hept.evaluation.evaluator import evaluate
from hept.metrics import average_precision_at_k, classify
from hept.metrics.puppi import weigh_puppi
from hept.settings.load import load_config
from hept.training.trainer import fit
from hept_cli import data
from hept_cli.printing import print_table

EVENTS = {"tracking": 45, "pileup": 160}
SIMULATE = {"tracking": ["--hits-per-event", "50000"], "pileup": ["--pileup", "50"]}
BUILD = {"tracking": ["--preset", "tracking-6k"], "pileup": []}
THREADS = 2
MODELS = {"HEPT": [], "plain MLP": ["model.kind=mlp"], "HEPT, standard kernel": ["model.kernel=dot"]}
METRIC = {"tracking": "ap@0.9", "pileup": "auc"}


def main(folder: Path) -> None:
    """Make what is missing, and print the table."""
    _make_data(folder)
    rows: list[tuple[str, str, float]] = []
    for task, metric in METRIC.items():
        dataset = open_dataset(folder / task)
        rows += [(task, name, value) for name, value in _raw(task, dataset).items()]
        for name, changes in MODELS.items():
            rows.append((task, name, _train(folder, task, name, changes)[metric]))
    print_table(
        "simulated events, laptop presets, test split",
        ("task", "model", "AP@k (pT > 0.9) or AUC"),
        rows,
    )
    (folder / "laptop.json").write_text(json.dumps(rows, indent=2))


def _make_data(folder: Path) -> None:
    for task, raw in (("tracking", folder / "raw"), ("pileup", folder / "raw.root")):
        if not raw.exists():
            arguments = ["simulate", task, str(raw), "--events", str(EVENTS[task]), "--seed", "1"]
            data.group.main([*arguments, *SIMULATE[task]], standalone_mode=False)
        if not (folder / task).exists():
            arguments = ["build", task, str(raw), str(folder / task), "--workers", "2"]
            data.group.main([*arguments, *BUILD[task]], standalone_mode=False)


def _train(folder: Path, task: str, name: str, changes: list[str]) -> dict[str, float]:
    run = folder / "runs" / f"{task}-{name.replace(' ', '-').replace(',', '')}"
    done = run / "test.json"
    if not done.exists():
        with ProgressBar() as progress:
            config = load_config(f"{task}-laptop", changes)
            result = fit(config, folder / task, run, progress=progress, threads=THREADS)
            metrics = evaluate(run, folder / task, progress=progress)
        done.write_text(json.dumps(metrics | {"seconds": result.seconds, "epochs": result.epochs}))
    metrics: dict[str, float] = json.loads(done.read_text())
    return metrics


def _raw(task: str, dataset: Dataset) -> dict[str, float]:
    """The same figure without a model: distances in (η, φ); pT, and the PUPPI-like weight, as scores."""
    clouds = list(dataset["test"])
    if task == "tracking":
        precisions = []
        for cloud in clouds:
            position = np.stack([cloud.eta, np.cos(cloud.phi), np.sin(cloud.phi)], 1)
            is_query = cloud.is_reconstructable & (cloud.pt > 0.9)
            found = average_precision_at_k(*map(torch.from_numpy, (position, cloud.particle_id, is_query)))
            precisions.append(found.ap)
        return {"raw coordinates": float(np.nanmean(precisions))}
    labels = np.concatenate([cloud.is_leading[cloud.is_scored] for cloud in clouds])
    pt = np.concatenate([cloud.pt[cloud.is_scored] for cloud in clouds])
    weights = [
        weigh_puppi(cloud.eta, cloud.phi, cloud.pt, cloud.charge, cloud.is_leading)[cloud.is_scored]
        for cloud in clouds
    ]
    return {
        "raw pT": classify(pt, labels).auc,
        "PUPPI-like, given the vertices of charged particles": classify(np.concatenate(weights), labels).auc,
    }


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "bench-results/laptop"))
