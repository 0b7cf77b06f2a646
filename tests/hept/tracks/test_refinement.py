"""Steps after the tree on exact helices: what they should do is known hit by hit."""

import numpy as np
import pytest

from hepdata.simulate.helix import launch
from hept.tracks.helix import HitError
from hept.tracks.refinement import (
    HitPlaces,
    StepChoice,
    add_lone_hits,
    drop_bad_tracks,
    merge_pieces,
    split_mixtures,
)

ERROR = HitError(0.02, 0.0)
LIMIT = 10.0
N_HITS = 6


def make_places(n_tracks, *, n_noise=0, seed=0):
    """Hits of helices from the beam, one after the other, smeared by their error; then random ones."""
    rng = np.random.default_rng(seed)
    pt, phi, eta = rng.uniform(0.5, 5, n_tracks), rng.uniform(-3, 3, n_tracks), rng.uniform(-1, 1, n_tracks)
    momentum = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], 1)
    helices = launch(np.zeros((n_tracks, 3)), momentum, rng.choice([-1, 1], n_tracks), 2.0)
    arcs = np.linspace(40, 340, N_HITS)
    hits = np.stack([helices.walk(np.full(n_tracks, s)).position for s in arcs], 1).reshape(-1, 3)
    hits = np.concatenate([hits + rng.normal(0, 0.02, hits.shape), rng.uniform(-300, 300, (n_noise, 3))])
    # One track in the embedding; every hit on a module of its own.
    embeddings = np.repeat(np.arange(n_tracks + n_noise), [N_HITS] * n_tracks + [1] * n_noise)[:, None] * 1.0
    return HitPlaces(embeddings, *hits.T, np.arange(len(hits)))


def test_the_hits_of_one_helix_are_kept_of_a_mixture():
    places = make_places(3)
    true = np.repeat(np.arange(3), N_HITS)
    mixed = true.copy()
    # Track 0 takes three hits of track 1 and one of track 2; those are left with three and five hits.
    mixed[[6, 7, 8, 12]] = 0
    found = split_mixtures(mixed, places, LIMIT, ERROR)
    np.testing.assert_array_equal(found, np.where(mixed == true, true, -1))


@pytest.mark.parametrize("n_wrong", [1, 2, 3])
def test_wrong_hits_are_found_as_long_as_four_are_right(n_wrong):
    places = make_places(1, n_noise=n_wrong, seed=n_wrong)
    found = split_mixtures(np.zeros(N_HITS + n_wrong, int), places, LIMIT, ERROR)
    assert found.tolist() == [0] * N_HITS + [-1] * n_wrong


def test_good_tracks_and_hopeless_ones_stay_as_they_are():
    places = make_places(2, n_noise=5)
    label = np.r_[np.repeat([0, 1], N_HITS), [2] * 5]
    np.testing.assert_array_equal(split_mixtures(label, places, LIMIT, ERROR), label)
    left = drop_bad_tracks(label, places, LIMIT, ERROR)
    np.testing.assert_array_equal(left, np.where(label == 2, -1, label))
    nothing = np.full(len(label), -1)
    np.testing.assert_array_equal(split_mixtures(nothing, places, LIMIT, ERROR), nothing)


def test_pieces_of_one_helix_become_one_track_and_those_of_two_do_not():
    places = make_places(2)
    pieces = np.repeat([0, 1, 2, 3], N_HITS // 2)
    found = merge_pieces(pieces, places, 10.0, 30.0, ERROR)
    assert found.tolist() == [0] * N_HITS + [1] * N_HITS


def test_a_lone_hit_joins_the_helix_that_it_is_on():
    places = make_places(2, n_noise=3)
    label = np.r_[np.repeat([0, 1], N_HITS), [-1] * 3]
    label[[2, 9]] = -1
    found = add_lone_hits(label, places, 10.0, 20.0, ERROR)
    assert found.tolist() == [0] * N_HITS + [1] * N_HITS + [-1] * 3


def test_steps_out_of_range_are_named():
    with pytest.raises(ValueError, match="passes is 0; it must be at least 1"):
        StepChoice(passes=0)
    with pytest.raises(ValueError, match="quality is -1; it must be positive"):
        StepChoice(quality=-1)
