"""Simulated pileup events: the right mix, learnable from neighbours, hardly from one particle."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from hepdata.simulate.pileup import Particles, simulate_event

NEUTRAL_CODES = {22, 130, 310, 2112, 3122, 3322}


@pytest.fixture(scope="module")
def events() -> list[Particles]:
    return [simulate_event(50, seed=5, event=number) for number in range(30)]


def is_scored(event: Particles) -> np.ndarray:
    return (event.charge == 0) & (event.pt > 0.9)


def test_size_and_label_share(events):
    assert np.mean([len(event) for event in events]) == pytest.approx(10_000, rel=0.1)
    leading = np.concatenate([~event.is_pileup[is_scored(event)] for event in events])
    assert 0.10 < leading.mean() < 0.17


def test_species(events):
    pid = np.abs(np.concatenate([event.pid for event in events]))
    charge = np.concatenate([event.charge for event in events])
    assert set(pid[charge == 0].tolist()) <= NEUTRAL_CODES
    assert set(pid[charge != 0].tolist()) == {11, 13, 211, 321, 2212}
    assert np.mean(pid[charge == 0] == 22) > 0.8
    assert 0.4 < np.mean(charge != 0) < 0.5


def test_neutral_and_charged_fragments_of_jets_share_their_momentum(events):
    """As in Delphes events, about 0.6 of the momentum above 2 GeV is charged; it was once nearly all."""
    hard = [event.pt * ~event.is_pileup * (event.pt > 2) for event in events]
    charged = sum(pt[event.charge != 0].sum() for pt, event in zip(hard, events, strict=True))
    assert 0.5 < charged / sum(pt.sum() for pt in hard) < 0.75


def test_electron_is_negative_and_pion_plus_positive(events):
    pid = np.concatenate([event.pid for event in events])
    charge = np.concatenate([event.charge for event in events])
    assert set(charge[pid == 11].tolist()) == {-1}
    assert set(charge[pid == 211].tolist()) == {1}


def test_event_does_not_depend_on_the_others():
    once, again = simulate_event(5, seed=1, event=3), simulate_event(5, seed=1, event=3)
    np.testing.assert_array_equal(once.pt, again.pt)
    assert not np.array_equal(once.pt[:10], simulate_event(5, seed=2, event=3).pt[:10])


def test_leading_collision_has_a_lepton_and_jets(events):
    for event in events:
        leading = ~event.is_pileup
        is_lepton = leading & np.isin(np.abs(event.pid), (11, 13)) & (event.pt > 20)
        assert is_lepton.any()
        charged_sum = event.pt[leading & (event.charge != 0)].sum()
        assert charged_sum > 60


def test_without_pileup_all_is_leading():
    event = simulate_event(0, seed=1, event=0)
    assert len(event) > 0
    assert not event.is_pileup.any()


def test_two_photons_of_a_pion_have_its_mass():
    event = simulate_event(1, seed=2, event=1)
    photon = np.flatnonzero((event.pid == 22) & ~event.is_pileup)
    first, second = np.split(photon, 2)
    mass_squared = (
        2
        * event.pt[first]
        * event.pt[second]
        * (np.cosh(event.eta[first] - event.eta[second]) - np.cos(event.phi[first] - event.phi[second]))
    )
    np.testing.assert_allclose(mass_squared, 0.13498**2, rtol=1e-4)


def test_energy_is_below_that_of_the_beam(events):
    for event in events:
        assert np.hypot(event.pt * np.cosh(event.eta), event.mass).max() <= 6501


def test_learnable_from_neighbours_not_from_one_particle(events):
    """A boosted classifier on each scored neutral's own features, and one on what lies around it."""
    own, around, leading, number = [], [], [], []
    for position, event in enumerate(events):
        scored = is_scored(event)
        energy = np.hypot(event.pt * np.cosh(event.eta), event.mass)
        own.append(np.stack([event.pt, np.abs(event.eta), energy, np.abs(event.pid)], axis=1)[scored])
        around.append(neighbour_sums(event, scored))
        leading.append(~event.is_pileup[scored])
        number.append(np.full(scored.sum(), position))
    label, is_train = np.concatenate(leading), np.concatenate(number) < 20
    merit = {}
    for name, values in (("own", np.concatenate(own)), ("around", np.concatenate(around))):
        model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0)
        score = model.fit(values[is_train], label[is_train]).predict_proba(values[~is_train])[:, 1]
        truth = label[~is_train]
        merit[name] = (average_precision_score(truth, score), roc_auc_score(truth, score))
    assert merit["around"][0] > merit["own"][0] + 0.1
    assert merit["around"][1] > merit["own"][1] + 0.05


def neighbour_sums(event: Particles, scored: np.ndarray) -> np.ndarray:
    """Σ pT within ΔR of 0.1, 0.2 and 0.4, the point itself left out."""
    place = np.stack([event.eta, event.phi], axis=1)
    turns = np.array([[0, 0], [0, 2 * np.pi], [0, -2 * np.pi]])
    tree = cKDTree(np.concatenate([place + turn for turn in turns]))
    pt = np.tile(event.pt, 3)
    return np.stack(
        [
            [pt[near].sum() for near in tree.query_ball_point(place[scored], radius)] - event.pt[scored]
            for radius in (0.1, 0.2, 0.4)
        ],
        axis=1,
    )
