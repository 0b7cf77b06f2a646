from __future__ import annotations

import numpy as np
import pytest

from hepdata.simulate.acts.nuclear import DEPTH_SCALE, interact
from hepdata.simulate.acts.pythia import Born
from hepdata.simulate.acts.transport import Transported, pack_barcodes

N_MODULES = 10


def make_tracks(n: int, pdg: int, depth: float, momentum: float = 5.0) -> Transported:
    """n straight tracks along x through ten modules; hits of all particles in random order."""
    rng = np.random.default_rng(3)
    barcode = np.zeros((n, 5), dtype=np.int64)
    barcode[:, 0], barcode[:, 2] = 1 + np.arange(n) % 3, 1 + np.arange(n)
    p = np.tile([momentum, 0.0, 0.1], (n, 1))
    ones = np.ones(n)
    born = Born(barcode, np.full(n, pdg), ones.astype(np.int64), 0.14 * ones, np.zeros((n, 3)), p)
    order = rng.permutation(n * N_MODULES)
    particle, step = np.repeat(np.arange(n), N_MODULES)[order], np.tile(np.arange(N_MODULES), n)[order]
    position = np.stack([100.0 * (step + 1), 0.0 * step, 0.0 * step], axis=1)
    return Transported(born, np.full(n, depth), particle, step, step, position, p[particle])


def test_as_many_hadrons_interact_as_their_material_says():
    n, depth = 20_000, 0.4
    remains, _ = interact(make_tracks(n, 211, depth), np.random.default_rng(1))
    # An interaction at a random one of ten modules costs 4.5 hits on average.
    lost = np.count_nonzero(~remains) / n
    expected = (1 - np.exp(-DEPTH_SCALE * depth)) * (N_MODULES - 1) / 2
    assert lost == pytest.approx(expected, rel=0.06)


def test_only_hits_behind_the_interaction_are_lost_and_secondaries_start_there():
    moved = make_tracks(300, -211, 50.0)
    remains, secondaries = interact(moved, np.random.default_rng(2))
    for k in range(300):
        steps = np.sort(moved.step[remains & (moved.particle == k)])
        np.testing.assert_array_equal(steps, np.arange(len(steps)))
        assert 1 <= len(steps) <= N_MODULES
    last = 100.0 * np.bincount(moved.particle[remains])
    assert set(np.round(secondaries.position[:, 0] - 0.2)) <= set(last)


@pytest.mark.parametrize("pdg", [11, 13, 22])
def test_leptons_and_photons_pass(pdg):
    remains, secondaries = interact(make_tracks(200, pdg, 50.0), np.random.default_rng(2))
    assert remains.all()
    assert len(secondaries) == 0


def test_secondaries_have_their_own_numbers_charge_and_less_momentum():
    _, secondaries = interact(make_tracks(500, 321, 50.0), np.random.default_rng(5))
    assert len(np.unique(pack_barcodes(secondaries.barcode))) == len(secondaries) > 500
    assert (np.abs(secondaries.charge) == 1).all()
    assert (np.sign(secondaries.pdg) == secondaries.charge).all()
    assert (np.linalg.norm(secondaries.momentum, axis=1) < 5.1).all()
    assert (secondaries.barcode[:, 1] >= 2048).all()


def test_an_event_without_hits_stays_empty():
    moved = make_tracks(4, 211, 1.0)
    none = np.zeros(0, dtype=np.int64)
    empty = Transported(
        moved.particles, moved.nuclear_depth, none, none, none, np.zeros((0, 3)), np.zeros((0, 3))
    )
    remains, secondaries = interact(empty, np.random.default_rng(5))
    assert len(remains) == len(secondaries) == 0
