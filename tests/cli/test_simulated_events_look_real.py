"""A model trained on real events judges ours, through the whole path from raw files to batches."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import hepdata
from hept.metrics.retrieval import average_precision_at_k
from hept.published import load_published


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    for words in (
        "simulate tracking raw --events 3 --hits-per-event 2800 --seed 3",
        "build tracking raw dataset --pairs none --split 100/0/0",
    ):
        program = "from hept_cli.data import main; main()"
        subprocess.run(
            [sys.executable, "-c", program, *words.split()], cwd=folder, check=True, capture_output=True
        )
    return hepdata.open_dataset(folder / "dataset")


def test_published_weights_group_simulated_hits_almost_as_well_as_real_ones(dataset, real_file):
    """On the real event of about this size they reach 0.976."""
    model = load_published(real_file("data/checkpoint/tracking-60k-model.pt")).eval()
    scores, untrained = [], []
    for batch in dataset["train"].loader(pairs=False):
        is_query = (batch.pt > 0.9) & batch.is_reconstructable.bool()
        with torch.no_grad():
            embedded = model(batch.features, batch.coords, batch.offsets)
        scores.append(average_precision_at_k(embedded, batch.particle_id, is_query).ap)
        untrained.append(average_precision_at_k(batch.coords[:, :2], batch.particle_id, is_query).ap)
    assert np.mean(scores) > 0.93
    assert np.mean(untrained) < 0.8
