import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hept.metrics.track_score import TrackScore, subtract_paired
from hept.metrics.tracks import DEFINITIONS, EventTruth, TargetCuts, match_labels, match_tracks

ALL = TargetCuts(pt_min=0)


def truth_of(particle_id, *, pt=None, reconstructable=None, weight=None):
    particle_id = np.array(particle_id, np.int64)
    n = len(particle_id)
    return EventTruth(
        particle_id,
        particle_id > 0 if reconstructable is None else np.array(reconstructable, bool),
        {"pt": np.ones(n) if pt is None else np.array(pt, float), "eta": particle_id * 0.1},
        (particle_id > 0).astype(float) if weight is None else np.array(weight, float),
    )


def score(track, particle_id, cuts=ALL, **options):
    return TrackScore((match_labels(np.array(track, int), truth_of(particle_id, **options)),), cuts)


@pytest.mark.parametrize(
    ("track", "particle_id", "expected"),
    [
        # lhc, double majority, perfect
        ([0, 0, 0, 0], [7, 7, 7, 7], (1, 1, 1)),
        # one foreign hit of four: 75 % is enough for LHC
        ([0, 0, 0, 0], [7, 7, 7, 0], (1, 1, 0)),
        # three of five of the particle's hits in a pure track
        ([0, 0, 0, -1, -1], [7, 7, 7, 7, 7], (1, 1, 0)),
        # exactly half of the particle's hits: no majority
        ([0, 0, 0, -1, -1, -1], [7, 7, 7, 7, 7, 7], (1, 0, 0)),
        # three of five hits are the particle's: a majority, but below 75 %
        ([0, 0, 0, 0, 0], [7, 7, 7, 0, 0], (0, 1, 0)),
        # exactly half of the track's hits
        ([0, 0, 0, 0, 0, 0], [7, 7, 7, 0, 0, 0], (0, 0, 0)),
        # too short to be a track
        ([0, 0], [7, 7], (0, 0, 0)),
        # nothing was found
        ([-1, -1, -1], [7, 7, 7], (0, 0, 0)),
    ],
)
def test_hand_counted_efficiencies(track, particle_id, expected):
    found = score(track, particle_id).summary()
    assert tuple(found[f"efficiency_{name}"] for name in DEFINITIONS) == expected


def test_fakes_and_duplicates_by_hand():
    # Particle 7 in pure tracks of four hits (0) and of three (1), a track of noise (2), a mixed one (3).
    track = [0] * 4 + [1] * 3 + [2] * 3 + [3] * 4
    particle_id = [7] * 7 + [0] * 3 + [8, 8, 9, 9]
    found = score(track, particle_id, TargetCuts(pt_min=0.5), pt=[1] * 10 + [0.4, 0.4, 1, 1]).summary()
    # Of particle 7 the first track has four of seven hits; 8 and 9 have no track with a majority.
    assert found["efficiency_double_majority"] == 1 / 2
    assert found["fake_rate"] == 3 / 4
    # Tracks 0 and 1 are of a target; of 3, the majority particle is 8, the first of two, and none.
    assert found["fake_rate_target"] == 1 / 2
    assert found["fake_rate_impure"] == 2 / 4
    assert found["duplicate_rate"] == 1 / 4
    assert found["hit_purity"] == 1.0
    assert found["hit_efficiency"] == 4 / 7
    assert found["trackml_score"] == pytest.approx(4 / 11)
    assert (found["n_targets"], found["n_tracks"]) == (2, 4)


def random_truth(seed=0, n_particles=40):
    rng = np.random.default_rng(seed)
    particle_id = np.repeat(np.arange(n_particles + 1), np.r_[60, rng.integers(3, 12, n_particles)])
    return truth_of(rng.permutation(particle_id), weight=rng.integers(1, 9, len(particle_id)))


def test_truth_scores_one_and_shuffled_truth_near_nothing():
    truth = random_truth()
    truth.weight[truth.particle == 0] = 0
    label = np.where(truth.particle > 0, truth.particle, -1)
    found = TrackScore((match_labels(label, truth),), ALL).summary()
    ones = [f"efficiency_{name}" for name in DEFINITIONS] + ["hit_purity", "hit_efficiency", "trackml_score"]
    assert {name: found[name] for name in ones} == dict.fromkeys(ones, 1.0)
    rates = ["fake_rate", "fake_rate_target", "fake_rate_impure", "duplicate_rate"]
    assert {name: found[name] for name in rates} == dict.fromkeys(rates, 0.0)
    shuffled = np.random.default_rng(1).permutation(label)
    found = TrackScore((match_labels(shuffled, truth),), ALL).summary()
    assert found["efficiency_double_majority"] == found["trackml_score"] == 0
    assert found["fake_rate"] == 1


def test_one_giant_track_finds_nothing():
    truth = random_truth()
    found = TrackScore((match_labels(np.zeros(len(truth.particle), int), truth),), ALL).summary()
    assert found["efficiency_double_majority"] == found["efficiency_lhc"] == found["trackml_score"] == 0
    assert (found["fake_rate"], found["n_tracks"]) == (1, 1)


def test_single_hits_are_no_tracks():
    truth = random_truth()
    found = TrackScore((match_labels(np.arange(len(truth.particle)), truth),), ALL).summary()
    assert found["n_tracks"] == found["efficiency_perfect"] == 0
    assert math.isnan(found["fake_rate"])


def test_every_hit_twice_makes_half_of_the_tracks_duplicates():
    truth = random_truth()
    hit = np.flatnonzero(truth.particle)
    track = truth.particle[hit]
    twice = match_tracks(np.r_[hit, hit], np.r_[track, track + 1000], truth)
    found = TrackScore((twice,), ALL).summary()
    assert (found["duplicate_rate"], found["fake_rate"]) == (0.5, 0.0)
    assert found["efficiency_perfect"] == 1.0
    # No hit's weight is counted twice, and a hit that is named twice by one track counts once.
    assert found["trackml_score"] == pytest.approx(truth.weight[hit].sum() / truth.weight.sum())
    again = match_tracks(np.r_[hit, hit], np.r_[track, track], truth)
    assert TrackScore((again,), ALL).summary()["efficiency_perfect"] == 1.0


def test_leaving_hits_out_never_raises_the_score():
    truth = random_truth()
    label = np.where(truth.particle % 2 == 1, truth.particle, -1)
    found = TrackScore((match_labels(label, truth),), ALL).summary()
    kept = truth.weight[label >= 0].sum()
    assert found["trackml_score"] == pytest.approx(kept / truth.weight.sum())
    assert found["efficiency_perfect"] == 0.5


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        (TargetCuts(pt_min=0), [1, 2, 3]),
        (TargetCuts(pt_min=0.9), [2, 3]),
        (TargetCuts(pt_min=0, eta_max=0.25), [1, 2]),
        (TargetCuts(pt_min=0, min_hits=4), [3]),
        (TargetCuts(pt_min=0, min_layers=3), [2]),
        (TargetCuts(pt_min=0, primary=True), [1]),
        (TargetCuts(pt_min=0, primary=False), [2, 3]),
    ],
)
def test_cuts_choose_targets(cuts, expected):
    particle = np.array([1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 0])
    known = {
        "pt": np.array([0.5, 2, 2, 2, 0])[[0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 4]],
        "eta": particle * 0.1,
        "n_layers": np.array([2, 3, 1, 9, 0])[[0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 4]],
        "origin": np.array([0.0, 30, 40, 0, 0])[[0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 4]],
    }
    truth = EventTruth(particle, np.isin(particle, [1, 2, 3]), known, np.ones(11))
    match = match_labels(particle, truth)
    assert (np.flatnonzero(cuts.select(match)) + 1).tolist() == expected


@pytest.mark.parametrize(("track", "particle_id"), [([], []), ([0, 0, 0], [0, 0, 0]), ([-1], [5])])
def test_empty_and_all_noise_events(track, particle_id):
    found = score(track, particle_id, reconstructable=[False] * len(track)).summary()
    assert math.isnan(found["efficiency_perfect"])
    assert found["n_targets"] == 0


def test_rates_against_pt_and_eta():
    pt = [0.5] * 3 + [0.6] * 3 + [5] * 3
    one = score([0] * 3 + [-1] * 3 + [1] * 3, [1] * 3 + [2] * 3 + [3] * 3, pt=pt)
    both = TrackScore(one.matches * 2, ALL)
    binned = both.against("pt", np.array([0.0, 1.0, 10.0, 20.0]))
    np.testing.assert_array_equal(binned["efficiency"].value, [0.5, 1.0, np.nan])
    np.testing.assert_array_equal(binned["efficiency"].n_all, [4, 2, 0])
    np.testing.assert_array_equal(binned["fake_rate"].value, [0.0, 0.0, np.nan])
    cut = TrackScore(one.matches, TargetCuts(pt_min=0.55))
    by_eta = cut.against("eta", np.array([0.0, 0.15, 0.25, 0.5]))["efficiency"]
    np.testing.assert_array_equal(by_eta.value, [np.nan, 0.0, 1.0])


def test_errors_of_rates_come_from_events():
    good, bad = (score([0] * 3, [5] * 3).matches[0], score([0] * 3, [0] * 3).matches[0])
    alike = {figure.name: figure for figure in TrackScore((good,) * 9, ALL).figures()}
    assert (alike["fake_rate"].low, alike["fake_rate"].high) == (0, 0)
    mixed = {figure.name: figure for figure in TrackScore((good,) * 8 + (bad,) * 8, ALL).figures()}
    fakes = mixed["fake_rate"]
    # Half of 16 tracks: binomially, one sigma is 1/8.
    assert (fakes.value, fakes.n_all, fakes.unit) == (0.5, 16, "tracks")
    assert fakes.low == pytest.approx(3 / 8, abs=0.07)
    assert fakes.high == pytest.approx(5 / 8, abs=0.07)
    single = {figure.name: figure for figure in TrackScore((bad,), ALL).figures()}
    assert math.isnan(single["fake_rate"].low)


def test_paired_differences_cancel_what_both_share():
    found, lost = score([0] * 3, [5] * 3).matches[0], score([-1] * 3, [5] * 3).matches[0]
    ours, theirs = TrackScore((found,) * 4 + (lost,) * 4, ALL), TrackScore((lost,) * 8, ALL)
    difference, error = subtract_paired(ours, theirs)
    assert difference == 0.5
    assert error == pytest.approx(0.5 / math.sqrt(8), rel=0.1)
    assert subtract_paired(ours, ours) == (0, 0)
    with pytest.raises(ValueError, match="8 and 4 events"):
        subtract_paired(ours, TrackScore((lost,) * 4, ALL))


def literal_score(track, particle_id, weight):
    """Track by track: the majority particle, then both purities."""
    event = pd.DataFrame({"track": track, "particle": particle_id, "weight": weight})
    score = 0.0
    for _, hits in event.groupby("track"):
        counts = hits.groupby("particle").size()
        major = counts.index[counts.argmax()]
        of_major = hits[hits.particle == major]
        if 2 * len(of_major) > len(hits) and 2 * len(of_major) > (event.particle == major).sum():
            score += of_major.weight.sum()
    return score / event.weight.sum()


def random_event(seed, n_hits):
    rng = np.random.default_rng(seed)
    particle_id = rng.integers(0, max(n_hits // 6, 2), n_hits)
    track = np.where(rng.random(n_hits) < 0.7, particle_id, rng.integers(0, 9, n_hits))
    weight = np.where(particle_id > 0, rng.random(n_hits), 0.0)
    weight[0] += 0.1
    particle_id[0] = 1
    return track, particle_id, weight


@given(seed=st.integers(0, 1000), n_hits=st.integers(1, 80))
@settings(max_examples=30)
def test_trackml_score_is_the_challenge_s(seed, n_hits):
    track, particle_id, weight = random_event(seed, n_hits)
    found = match_labels(track, truth_of(particle_id, weight=weight)).score
    assert found == pytest.approx(literal_score(track, particle_id, weight))


def test_trackml_score_agrees_with_the_challenge_s_library():
    library = pytest.importorskip(
        "trackml.score",
        reason="the challenge's library is not on the package index (github.com/LAL/trackml-library)",
    )
    for seed in range(20):
        track, particle_id, weight = random_event(seed, 200)
        hit_id = np.arange(1, 201)
        truth = pd.DataFrame({"hit_id": hit_id, "particle_id": particle_id, "weight": weight})
        submission = pd.DataFrame({"hit_id": hit_id, "track_id": track})
        found = match_labels(track, truth_of(particle_id, weight=weight)).score
        assert found == pytest.approx(library.score_event(truth, submission))


def test_an_event_without_weight_has_no_score():
    assert score([-1, -1, -1], [7, 7, 7]).summary()["trackml_score"] == 0.0
    assert math.isnan(score([0], [0]).summary()["trackml_score"])


def test_wrong_lengths_are_named():
    with pytest.raises(ValueError, match=r"the arrays have \[2, 3\] hits"):
        EventTruth(np.zeros(2, int), np.zeros(3, bool), {}, np.zeros(3))
    with pytest.raises(ValueError, match="2 labels for 3 hits"):
        match_labels(np.zeros(2, int), truth_of([1, 1, 1]))
