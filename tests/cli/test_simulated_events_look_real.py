"""Simulated events look real to physics and to a trained model, after the path from files to batches."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import hepdata
from hept.metrics.retrieval import average_precision_at_k
from hept.model.published_weights import load_published


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


def fit_particles(batch):
    """Per fast particle: pt of a circle through the beam over true pt, η of a line in (r, z) − true η."""
    r, z, u, v = (batch.features[:, column].double().numpy() for column in (0, 2, 4, 5))
    is_fast = ((batch.pt > 0.9) & batch.is_reconstructable.bool()).numpy()
    particle_id, pt = batch.particle_id.numpy(), batch.pt.double().numpy()
    eta = batch.particle_eta.double().numpy()
    fits = []
    for particle in np.unique(particle_id[is_fast]):
        own = np.flatnonzero(particle_id == particle)
        # A circle around (a, b) through the origin is the line 2 (a u + b v) = 1; u and v are in 1/m.
        centre = np.linalg.lstsq(2 * np.column_stack([u[own], v[own]]), np.ones(len(own)), rcond=None)[0]
        slope = np.polyfit(r[own], z[own], 1)[0]
        # 0.3 GeV per tesla and metre, and TrackML's field of 2 tesla.
        fits.append((0.3 * 2 * np.hypot(*centre) / pt[own[0]], np.arcsinh(slope) - eta[own[0]]))
    return np.array(fits)


def test_fast_particles_are_helices_of_their_momentum_in_two_tesla(dataset):
    """On a real event these fits give a median ratio of 0.99, two thirds of them from 0.90 to 1.06."""
    batches = list(dataset["train"].loader(pairs=False))
    ratio, difference = np.concatenate([fit_particles(batch) for batch in batches]).T
    assert len(ratio) > 100
    assert np.median(ratio) == pytest.approx(1, abs=0.05)
    assert np.quantile(np.abs(ratio - 1), 0.68) < 0.2
    assert np.median(difference) == pytest.approx(0, abs=0.01)
    assert np.quantile(np.abs(difference), 0.68) < 0.05


def test_neighbours_alone_do_not_group_simulated_hits(dataset):
    scores = []
    for batch in dataset["train"].loader(pairs=False):
        is_query = (batch.pt > 0.9) & batch.is_reconstructable.bool()
        scores.append(average_precision_at_k(batch.coords[:, :2], batch.particle_id, is_query).ap)
    assert np.mean(scores) < 0.8


def test_published_weights_group_simulated_hits_almost_as_well_as_real_ones(dataset, real_file):
    """On the real event of about this size they reach 0.976."""
    model = load_published(real_file("data/checkpoint/tracking-60k-model.pt")).eval()
    scores = []
    for batch in dataset["train"].loader(pairs=False):
        is_query = (batch.pt > 0.9) & batch.is_reconstructable.bool()
        with torch.no_grad():
            embedded = model(batch.features, batch.coords, batch.offsets)
        scores.append(average_precision_at_k(embedded, batch.particle_id, is_query).ap)
    assert np.mean(scores) > 0.93
