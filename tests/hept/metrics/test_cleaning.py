import builtins
import subprocess
import sys

import numpy as np
import pytest

from hepdata.errors import InputError
from hept.metrics.calibration import UNCHANGED, ScoreMap, calibrate_curve, fit_score_map
from hept.metrics.cleaning import Cleaning
from hept.metrics.jet_account import JetAccount
from hept.metrics.jets import Jets, find_jets, match_jets
from hept.metrics.missing_pt import describe_missing_pt, missing_pt, resolution
from hept.metrics.puppi import count_collisions, weigh_puppi


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


def test_puppi_by_hand_within_the_tracker():
    # One charged leading particle of 10 GeV at the origin; charged pileup at distances 0.1 and 0.2 has
    # α = ln 10⁴ = 9.210 and ln 2500 = 7.824: median 8.517, RMS below it 0.693. A neutral at 0.05 has
    # α = ln 40000 = 10.597, so χ = 2.080 / 0.693 = 3 and P(χ² < 9) = 0.9973. At 0.12, α = 8.846 gives
    # χ = 0.474 and P = 0.3644; a neutral at 0.15 (α = 8.399) is below the median.
    eta = np.array([0.0, 0.1, -0.2, 0.05, 2.0, 0.12, -0.15])
    charge = np.array([1, 1, 1, 0, 0, 0, 0])
    is_leading = np.array([True] + [False] * 6)
    weight = weigh_puppi(eta, np.zeros(7), np.full(7, 10.0), charge, is_leading, n_collisions=50)
    np.testing.assert_allclose(weight, [1, 0, 0, 0.9973, 0, 0.3644, 0], atol=1e-4)


def test_puppi_removes_soft_neutrals_by_the_number_of_collisions():
    # The weight of the neutral at 0.05 is 0.9973 whatever its pT; it is kept above 0.1 + 0.007 n GeV.
    def weigh(pt, n_collisions):
        pts = np.array([10.0, 1, 1, pt])
        eta, charge = np.array([0.0, 0.1, -0.2, 0.05]), np.array([1, 1, 1, 0])
        leading = np.array([True, False, False, False])
        return weigh_puppi(eta, np.zeros(4), pts, charge, leading, n_collisions=n_collisions)[3]

    assert weigh(0.44, 50) == 0
    assert weigh(0.46, 50) == pytest.approx(0.9973, abs=1e-4)
    assert weigh(0.46, 100) == 0


def test_puppi_by_hand_beyond_the_tracker():
    # No charges count there. Three neutrals of 10 GeV on a line, at η 3, 3.1 and 3.3: α of the ends are from
    # one and two neighbours within 0.4; all three are the control sample.
    eta = np.array([3.0, 3.1, 3.3])
    sums = np.array([1 / 0.1**2 + 1 / 0.3**2, 1 / 0.1**2 + 1 / 0.2**2, 1 / 0.3**2 + 1 / 0.2**2])
    alpha = np.log(100 * sums)
    median, lowest, highest = alpha[0], alpha[2], alpha[1]
    spread = abs(lowest - median) / np.sqrt(2)
    chi = (highest - median) / spread
    weight = weigh_puppi(eta, np.zeros(3), np.full(3, 10.0), np.zeros(3, int), np.zeros(3, bool))
    assert weight[0] == weight[2] == 0
    from math import erf

    expected = erf(chi / np.sqrt(2))
    assert weight[1] == pytest.approx(expected if expected > 0.1 else 0.0)


def test_puppi_removes_forward_particles_below_their_own_threshold():
    # The same three: P(χ < 0.148) = 0.1178, of 10 GeV; a forward one is kept above 0.5 + 0.011 n GeV.
    def weigh(n_collisions):
        eta, none = np.array([3.0, 3.1, 3.3]), np.zeros(3)
        return weigh_puppi(eta, none, np.full(3, 10.0), none, none > 0, n_collisions=n_collisions)[1]

    assert weigh(61) == pytest.approx(0.1178, abs=1e-4)  # 1.171 GeV
    assert weigh(62) == 0  # 1.182 GeV


def weigh_central(*eta):
    """Weights of neutrals of 10 GeV, in the event of `test_puppi_by_hand_within_the_tracker`."""
    eta = np.array([0.0, 0.1, -0.2, *eta])
    number = np.arange(len(eta))
    pt = np.full(len(eta), 10.0)
    return weigh_puppi(eta, np.zeros(len(eta)), pt, number < 3, number == 0, n_collisions=50)[3:]


def test_puppi_removes_weights_below_a_tenth():
    # α = ln(100 / 0.1347²) gives χ = 0.140, P = 0.1117; 0.1357 gives 0.119 and 0.0951.
    weight = weigh_central(0.1347, 0.1357)
    np.testing.assert_allclose(weight, [0.1117, 0], atol=2e-3)


def test_puppi_counts_neighbours_from_0_02_to_0_4():
    np.testing.assert_allclose(weigh_central(0.019, 0.021), [0, 1], atol=1e-4)

    def weigh(distance):
        # Charged pileup has no neighbour, so whatever has one is kept.
        eta, charge = np.array([0.0, distance, 2.0]), np.array([1, 0, 1])
        return weigh_puppi(eta, np.zeros(3), np.full(3, 9.0), charge, np.array([1, 0, 0]), n_collisions=0)[1]

    assert (weigh(0.019), weigh(0.39), weigh(0.41)) == (0, 1, 0)


def test_collisions_are_counted_by_charged_pileup_within_the_tracker():
    eta = np.concatenate([np.zeros(64), [3.0, 0.0, 0.0]])
    charge, is_leading = np.append(np.ones(66), 0), np.arange(67) == 65
    assert count_collisions(eta, charge, is_leading) == 2


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
    np.testing.assert_array_equal(match_jets(jets, jets), [0, 1])
    halved = find_jets(*columns, 0.5 * event["is_leading"], pt_min=1.0)
    match = match_jets(jets, halved)
    np.testing.assert_allclose(halved.pt[match], 0.5 * jets.pt)
    np.testing.assert_allclose(halved.mass[match], 0.5 * jets.mass)
    np.testing.assert_array_equal(halved.n_constituents[match], jets.n_constituents)


def test_the_mass_of_a_jet_of_two_particles():
    pytest.importorskip("fastjet", reason="needs the extra [jets]: pip install 'hept[jets]'")
    # Two massless particles of 50 GeV at η = 0, 0.6 apart: one jet with R = 0.8, m² = 2·50²·(1 − cos 0.6).
    phi = np.array([0.0, 0.6])
    momenta = 50 * np.cos(phi), 50 * np.sin(phi), np.zeros(2), np.full(2, 50.0)
    jets = find_jets(*momenta, np.ones(2), radius=0.8)
    np.testing.assert_allclose(jets.mass, np.sqrt(2 * 2500 * (1 - np.cos(0.6))))
    assert jets.n_constituents.tolist() == [2]
    assert len(find_jets(*momenta, np.ones(2), radius=0.4)) == 2


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


def make_jets(pt, eta, phi=0.0):
    pt, eta = np.array(pt, float), np.array(eta, float)
    return Jets(pt, eta, np.full(len(pt), phi), 0.1 * pt, np.full(len(pt), 10.0))


def test_a_found_jet_is_matched_once_and_across_the_border_of_phi():
    true = make_jets([50, 40], [0, 0.1], 3.1)
    assert match_jets(true, make_jets([55], [0], -3.1)).tolist() == [0, -1]
    assert match_jets(true, make_jets([], [])).tolist() == [-1, -1]


def test_efficiency_fakes_and_response_by_hand():
    account = JetAccount(0.4)
    # Found: 33 for 30, 20 for 25, a fake of 50; the true 40 is lost. The true 12 is too soft to count, but a
    # found jet beside it is no fake. The found 15 is below the threshold of fakes.
    true = make_jets([40, 30, 25, 12], [3, 0, 1, 2])
    found = make_jets([50, 33, 21, 20, 15], [-3, 0, 2, 1, -2])
    account.add(true, found, n_collisions=50.0)
    numbers = account.result()
    assert numbers["efficiency"] == pytest.approx(2 / 3)
    assert numbers["fake_rate"] == pytest.approx(1 / 4)
    assert numbers["response"] == pytest.approx((33 / 30 + 20 / 25) / 2)
    assert numbers["mass_bias"] == pytest.approx((0.3 - 0.5) / 2)
    assert (numbers["n_true"], numbers["n_found"]) == (3, 4)
    by_pt = account.against("pt", np.array([20.0, 28, 35, 60]))
    assert [one["efficiency"] for one in by_pt] == [1, 1, 0]
    assert [one["n_found"] for one in by_pt] == [2, 1, 1]


def test_missing_pt_along_and_across_by_hand():
    # True 10 GeV along x and along y; errors of 2 along and 1 across, and of −2 along and 1 across.
    numbers = describe_missing_pt(np.array([[10.0, 0], [0, 10]]), np.array([[12.0, 1], [-1, 8]]))
    one_sigma = 0.841345 - 0.158655
    assert numbers["parallel"] == pytest.approx(4 * one_sigma / 2)
    assert numbers["perpendicular"] == pytest.approx(0)
    assert numbers["scale"] == pytest.approx(1.0)
    assert numbers["tail"] == 0
    assert describe_missing_pt(np.array([[0.0, 1]]), np.array([[0.0, 40]]))["tail"] == 1


def test_calibration_by_hand():
    # Ten points at 0.25 of which five are positive, ten at 0.75 of which seven are.
    probability = np.repeat([0.25, 0.75], 10)
    is_positive = np.array([1] * 5 + [0] * 5 + [1] * 7 + [0] * 3, dtype=bool)
    curve = calibrate_curve(probability, is_positive)
    assert curve.error == pytest.approx((0.25 + 0.05) / 2)
    assert np.isnan(calibrate_curve(np.zeros(0), np.zeros(0, bool)).error)


def test_a_map_of_scores_is_found_again():
    rng = np.random.default_rng(3)
    logits, pt = rng.normal(0, 2, 20_000), rng.uniform(0.9, 20, 20_000)
    true = ScoreMap(0.5, -1.0, 0.7)
    fraction = rng.random(20_000) < true(logits, pt)
    found = fit_score_map(logits, fraction, pt)
    np.testing.assert_allclose((found.slope, found.offset, found.pt_slope), (0.5, -1.0, 0.7), atol=0.06)
    assert found.pt_min == pt.min()
    assert calibrate_curve(found(logits, pt), fraction).error < 0.02
    assert calibrate_curve(UNCHANGED(logits, pt), fraction).error > 0.1


def test_calibrated_weights_keep_the_momentum_of_the_leading_collision():
    # Many soft particles, and logits that mean something else for soft and hard ones: no map fits both.
    rng = np.random.default_rng(4)
    pt = rng.exponential(1.0, 20_000) ** 2 + 0.1
    logits = rng.normal(0, 2, 20_000)
    fraction = rng.random(20_000) < UNCHANGED(np.where(pt > 2, 2 * logits + 2, 0.3 * logits - 2))
    weight = fit_score_map(logits, fraction, pt)(logits, pt)
    assert np.sum(weight * pt) == pytest.approx(np.sum(fraction * pt), rel=1e-3)


def test_few_points_leave_scores_as_they_are():
    assert fit_score_map(np.zeros(0), np.zeros(0)) == UNCHANGED
    found = fit_score_map(np.array([3.0, -2.0]), np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    np.testing.assert_allclose((found.slope, found.offset, found.pt_slope), (1, 0, 0), atol=0.3)


def test_perfect_scores_beat_no_mitigation():
    cleaning = Cleaning()
    for seed in range(12):
        event = make_event(seed)
        cleaning.add(event, event["is_leading"].astype(float))
    numbers = cleaning.result()
    assert numbers["met_resolution_model"] < numbers["met_resolution_chs"] < numbers["met_resolution_none"]
    assert numbers["met_resolution_model"] == numbers["met_resolution_truth"]
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
