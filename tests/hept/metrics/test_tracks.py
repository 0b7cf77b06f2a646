import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hept.metrics.tracks import DEFINITIONS, Rates, match_tracks, trackml_score


def match(track, particle_id, *, pt=None, reconstructable=None, min_hits=3):
    particle_id = np.array(particle_id)
    n = len(particle_id)
    return match_tracks(
        np.array(track),
        particle_id,
        np.ones(n) if pt is None else np.array(pt, float),
        particle_id * 0.1,
        particle_id > 0 if reconstructable is None else np.array(reconstructable),
        min_hits=min_hits,
    )


def efficiencies(result):
    return tuple(float(result.is_found[name].mean()) for name in DEFINITIONS)


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
    assert efficiencies(match(track, particle_id)) == expected


def test_duplicates_and_fakes_by_hand():
    # Particle 7 in two pure tracks (0 and 1), a track of noise (2), a mixed track (3).
    track = [0] * 3 + [1] * 3 + [2] * 3 + [3] * 4
    particle_id = [7] * 6 + [0] * 3 + [8, 8, 9, 9]
    result = match(track, particle_id)
    assert result.is_fake["lhc"].tolist() == [False, False, True, True]
    assert result.is_duplicate["lhc"].tolist() == [False, True, False, False]
    assert result.is_fake["double_majority"].all()
    summary = Rates((result,)).summary()
    assert summary["fake_rate_lhc"] == 0.5
    assert summary["duplicate_rate_lhc"] == 0.25
    assert summary["efficiency_lhc"] == pytest.approx(1 / 3)


def test_only_reconstructable_particles_are_asked_for():
    result = match([0, 0, 0, -1, -1, -1], [7, 7, 7, 8, 8, 8], reconstructable=[True] * 3 + [False] * 3)
    assert efficiencies(result) == (1, 1, 1)


@pytest.mark.parametrize(("track", "particle_id"), [([], []), ([0, 0, 0], [0, 0, 0]), ([-1], [5])])
def test_empty_and_all_noise_events(track, particle_id):
    track, particle_id = np.array(track, int), np.array(particle_id, int)
    result = match_tracks(
        track, particle_id, particle_id * 1.0, particle_id * 1.0, np.zeros(len(track), bool)
    )
    assert math.isnan(Rates((result,)).summary()["efficiency_perfect"])


def test_rates_against_pt_and_eta():
    result = match(
        [0] * 3 + [-1] * 3 + [1] * 3, [1] * 3 + [2] * 3 + [3] * 3, pt=[0.5] * 3 + [0.6] * 3 + [5] * 3
    )
    binned = Rates((result, result)).against("pt", np.array([0.0, 1.0, 10.0, 20.0]), "perfect")
    np.testing.assert_array_equal(binned["efficiency"].value, [0.5, 1.0, np.nan])
    np.testing.assert_array_equal(binned["efficiency"].n_all, [4, 2, 0])
    np.testing.assert_array_equal(binned["fake_rate"].value, [0.0, 0.0, np.nan])
    assert Rates((result,)).summary(pt_min=1)["efficiency_perfect"] == 1.0
    by_eta = Rates((result,)).against("eta", np.array([0.0, 0.15, 0.25, 0.5]), "lhc", pt_min=0.55)
    np.testing.assert_array_equal(by_eta["efficiency"].value, [np.nan, 0.0, 1.0])


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
    assert trackml_score(track, particle_id, weight) == pytest.approx(
        literal_score(track, particle_id, weight)
    )


def test_trackml_score_agrees_with_the_challenge_s_library():
    score = pytest.importorskip(
        "trackml.score",
        reason="the challenge's library is not on the package index (github.com/LAL/trackml-library)",
    )
    for seed in range(20):
        track, particle_id, weight = random_event(seed, 200)
        hit_id = np.arange(1, 201)
        truth = pd.DataFrame({"hit_id": hit_id, "particle_id": particle_id, "weight": weight})
        submission = pd.DataFrame({"hit_id": hit_id, "track_id": track})
        assert trackml_score(track, particle_id, weight) == pytest.approx(
            score.score_event(truth, submission)
        )


def test_hits_in_no_track_score_nothing():
    assert trackml_score(np.array([-1, -1, -1]), np.array([7, 7, 7]), np.ones(3)) == 0.0
    assert math.isnan(trackml_score(np.array([0]), np.array([0]), np.zeros(1)))


def test_wrong_lengths_are_named():
    with pytest.raises(ValueError, match=r"the arrays have \[2, 3\] hits"):
        match_tracks(np.zeros(2, int), np.zeros(3, int), np.zeros(3), np.zeros(3), np.zeros(3, bool))
