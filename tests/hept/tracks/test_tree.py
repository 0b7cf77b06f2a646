from itertools import combinations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from hept.tracks.tree import TreeChoice, find_cut, grow_tracks


def best_by_trying(embeddings, layer, module, choice):
    """The score of the best disjoint candidates of the whole tree, by trying every set of them."""
    n = len(embeddings)
    members = [frozenset([i]) for i in range(n)]
    for a, b, distance, _ in linkage(embeddings, "single"):
        if distance < choice.cut:
            members.append(members[int(a)] | members[int(b)])
        else:
            members.append(frozenset())
    candidates = [m for m in members[n:] if m and len({layer[i] for i in m}) >= choice.min_layers]
    best = 0.0
    for size in range(len(candidates) + 1):
        for chosen in combinations(candidates, size):
            if sum(map(len, chosen)) == len(frozenset().union(*chosen)):
                best = max(best, sum(value(m, layer, module, choice) for m in chosen))
    return best


def value(hits, layer, module, choice):
    hits = list(hits)
    layers, modules = len(set(layer[hits].tolist())), len(set(module[hits].tolist()))
    return layers**choice.power + choice.overlap * (modules - layers) - choice.shared * (len(hits) - modules)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_disjoint_candidates_of_the_tree_are_kept(seed):
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(13, 2))
    layer, module = rng.integers(0, 5, 13), rng.integers(0, 9, 13)
    choice = TreeChoice(cut=1.5, power=1.3)
    label = grow_tracks(embeddings, layer, module, choice)
    kept = [np.flatnonzero(label == number) for number in range(label.max() + 1)]
    total = sum(value(hits, layer, module, choice) for hits in kept)
    assert total == pytest.approx(best_by_trying(embeddings, layer, module, choice))


def test_two_close_tracks_are_told_apart_by_their_layers():
    # Two lines, one beyond the other, in reach of each other.
    embeddings = np.r_[np.c_[np.arange(5), np.zeros(5)], np.c_[np.arange(5) + 5.2, np.zeros(5)]]
    layer = np.r_[np.arange(5), np.arange(5)]
    label = grow_tracks(embeddings, layer, np.arange(10), TreeChoice(cut=1.5, overlap=0.0))
    assert sorted(np.bincount(label).tolist()) == [5, 5]


def test_hits_at_one_point_are_joined():
    assert grow_tracks(np.zeros((4, 3)), np.arange(4), np.arange(4), TreeChoice(cut=0.1)).tolist() == [0] * 4
    assert find_cut(np.zeros((4, 3))) == 1.0


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_hits_are_no_track(n):
    assert (grow_tracks(np.zeros((n, 2)), np.arange(n), np.arange(n), TreeChoice()) == -1).all()


def test_the_found_cut_scales_with_the_embeddings():
    points = np.random.default_rng(0).normal(size=(50, 4))
    assert find_cut(points * 7) == pytest.approx(7 * find_cut(points))


def test_order_and_scale_do_not_matter():
    rng = np.random.default_rng(3)
    embeddings, layer, module = rng.normal(size=(60, 3)), rng.integers(0, 8, 60), rng.integers(0, 30, 60)
    label = grow_tracks(embeddings, layer, module, TreeChoice(cut=0.9))
    order = rng.permutation(60)
    other = grow_tracks(3 * embeddings[order], layer[order], module[order], TreeChoice(cut=2.7))
    same = label[order][:, None] == label[order]
    np.testing.assert_array_equal(same & (label[order] >= 0), (other[:, None] == other) & (other >= 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut": 0.0}, "cut is 0.0; it must be positive"),
        ({"shared": -1.0}, "shared is -1.0; it must be finite and not negative"),
        ({"neighbours": 2.5}, "neighbours is 2.5; it must be at least 1, a whole number"),
    ],
)
def test_unusable_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        TreeChoice(**options)
