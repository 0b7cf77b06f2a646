import builtins
import subprocess
import sys

import numpy as np
import pytest

from hepdata.errors import InputError
from hept.metrics.cleaning import Cleaning
from hept.metrics.jets import Jets, find_jets, match_jets
from hept.metrics.missing_pt import missing_pt, resolution
from hept.metrics.puppi import weigh_puppi


def make_event(seed=0, n=400):
    """Two back-to-back jets of the leading collision over flat pileup."""
    rng = np.random.default_rng(seed)
    is_leading = rng.random(n) < 0.2
    jet = rng.integers(0, 2, n)
    eta = np.where(is_leading, rng.normal(0.5 - jet, 0.1, n), rng.uniform(-3, 3, n))
    phi = np.where(is_leading, rng.normal(3.0 - np.pi * jet, 0.1, n), rng.uniform(-np.pi, np.pi, n))
    phi = (phi + np.pi) % (2 * np.pi) - np.pi
    pt = np.where(is_leading, rng.exponential(3, n) + 1, rng.exponential(0.7, n) + 0.2)
    charge = rng.integers(-1, 2, n)
    return {
        "eta": eta,
        "phi": phi,
        "pt": pt,
        "px": pt * np.cos(phi),
        "py": pt * np.sin(phi),
        "energy": pt * np.cosh(eta),
        "charge": charge,
        "is_leading": is_leading,
        "is_scored": (charge == 0) & (pt > 0.9),
    }


def weights_of(event):
    return weigh_puppi(*(event[name] for name in ("eta", "phi", "pt", "charge", "is_leading")))


def test_puppi_prefers_neutrals_beside_charged_particles_of_the_leading_collision():
    event = make_event()
    weight = weights_of(event)
    is_charged = event["charge"] != 0
    np.testing.assert_array_equal(weight[is_charged], event["is_leading"][is_charged])
    of_signal, of_pileup = (weight[~is_charged & (event["is_leading"] == flag)] for flag in (True, False))
    assert of_signal.mean() > of_pileup.mean() + 0.4
    assert ((weight >= 0) & (weight <= 1)).all()


def test_puppi_by_hand():
    # One charged leading particle of 10 GeV at the origin; two charged pileup particles at distances 0.1 and
    # 0.2; a neutral at 0.05 (above both), and one without neighbours.
    eta = np.array([0.0, 0.1, -0.2, 0.05, 2.0])
    phi = np.zeros(5)
    alpha = np.log((10 / np.array([0.1, 0.2, 0.05])) ** 2)
    median = alpha[:2].mean()
    spread = abs(alpha[1] - median)
    from scipy.stats import chi2

    weight = weigh_puppi(
        eta, phi, np.full(5, 10.0), np.array([1, 1, 1, 0, 0]), np.array([True] + [False] * 4)
    )
    assert weight[3] == pytest.approx(chi2.cdf(((alpha[2] - median) / spread) ** 2, 1))
    assert weight[4] == 0


def test_puppi_knows_that_phi_is_periodic():
    event = make_event()
    turned = event | {"phi": (event["phi"] + 2.9) % (2 * np.pi) - np.pi}
    np.testing.assert_allclose(weights_of(turned), weights_of(event), atol=1e-9)


def test_puppi_without_charged_pileup_or_anything():
    weight = weigh_puppi(
        np.zeros(2), np.array([0.0, 0.1]), np.ones(2), np.array([1, 0]), np.array([True, False])
    )
    assert weight.tolist() == [1.0, 1.0]
    assert len(weigh_puppi(*(np.zeros(0) for _ in range(3)), np.zeros(0, int), np.zeros(0, bool))) == 0


def test_missing_pt_and_resolution_by_hand():
    np.testing.assert_allclose(
        missing_pt(np.array([3.0, 1]), np.array([0.0, 2]), np.array([1.0, 0.5])), [-3.5, -1]
    )
    assert resolution(np.random.default_rng(0).normal(5, 2, 100_000)) == pytest.approx(2, rel=0.02)
    assert np.isnan(resolution(np.zeros(0)))


def test_jets_are_found_and_matched():
    pytest.importorskip("fastjet", reason="needs the extra [jets]: pip install 'hept[jets]'")
    event = make_event()
    columns = [event[name] for name in ("px", "py", "eta", "energy")]
    jets = find_jets(*columns, event["is_leading"].astype(float))
    assert len(jets.pt) == 2
    assert sorted(np.round(jets.eta, 0)) == [-1.0, 0.0] or np.allclose(
        sorted(jets.eta), [-0.5, 0.5], atol=0.15
    )
    np.testing.assert_allclose(match_jets(jets, jets), 1.0)
    halved = find_jets(*columns, 0.5 * event["is_leading"], pt_min=1.0)
    np.testing.assert_allclose(match_jets(jets, halved), 0.5)


def test_fastjet_prints_no_banner():
    pytest.importorskip("fastjet", reason="needs the extra [jets]: pip install 'hept[jets]'")
    script = (
        "import numpy as np\n"
        "from hept.metrics.jets import find_jets\n"
        "print('before')\n"
        "print(len(find_jets(*np.full((4, 1), 30.0), np.ones(1)).pt))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("before\n1\n", "")


def test_a_found_jet_is_matched_once_and_across_the_border_of_phi():
    true = Jets(np.array([50.0, 40.0]), np.array([0.0, 0.1]), np.array([3.1, 3.1]))
    found = Jets(np.array([55.0]), np.array([0.0]), np.array([-3.1]))
    response = match_jets(true, found)
    assert response[0] == pytest.approx(1.1)
    assert np.isnan(response[1])
    assert np.isnan(match_jets(true, Jets(*np.zeros((3, 0))))).all()


def test_perfect_scores_beat_no_mitigation():
    cleaning = Cleaning()
    for seed in range(12):
        event = make_event(seed)
        cleaning.add(event, event["is_leading"].astype(float))
    numbers = cleaning.result()
    assert numbers["met_resolution_model"] < numbers["met_resolution_none"]
    assert numbers["met_resolution_puppi"] < numbers["met_resolution_none"]
    if cleaning.has_jets:
        assert numbers["jet_resolution_model"] < numbers["jet_resolution_none"]
        assert numbers["jet_response_none"] > 1.0
    assert 0 < numbers["auc_puppi"] <= 1


def test_without_fastjet_the_extra_is_named_and_the_rest_is_said(monkeypatch):
    plain_import = builtins.__import__

    def refuse(name, *rest, **more):
        if name == "fastjet":
            raise ImportError(name)
        return plain_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    event = make_event()
    with pytest.raises(InputError, match=r"pip install 'hept\[jets\]'"):
        find_jets(*(event[name] for name in ("px", "py", "eta", "energy")), np.ones(400))
    cleaning = Cleaning()
    cleaning.add(event, event["is_leading"].astype(float))
    assert "met_resolution_model" in cleaning.result()
    assert not any("jet" in name for name in cleaning.result())
