import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.angles import delta_phi, wrap_phi
from hepdata.pairs import nearest
from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle


def random_event(seed, n_points=400, n_particles=60, noise=0.2):
    rng = np.random.default_rng(seed)
    particle_id = rng.integers(1, n_particles, n_points) + 2**60
    particle_id[rng.random(n_points) < noise] = 0
    return rng.uniform(-4, 4, n_points), rng.uniform(-np.pi, np.pi, n_points), particle_id


def nearest_by_brute_force(eta, phi, particle_id, n_negatives):
    rows = []
    for i in range(len(eta)):
        distance = np.hypot(eta - eta[i], delta_phi(phi, phi[i]))
        others = np.flatnonzero(particle_id != particle_id[i])
        rank = np.lexsort((others, np.round(distance[others], 11)))
        rows.append(sorted(others[rank[:n_negatives]].tolist()))
    return rows


def rows_of(pairs):
    return [pairs.row(i).tolist() for i in range(len(pairs.ptr) - 1)]


@pytest.mark.parametrize("n_negatives", [1, 7, 64, 150, 205, 256, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5])
def test_negatives_equal_a_brute_force_search(noise, n_negatives):
    event = random_event(n_negatives, noise=noise)
    assert rows_of(pair_nearest_others(*event, n_negatives)) == nearest_by_brute_force(*event, n_negatives)


@given(seed=st.integers(0, 10_000), angle=st.floats(-20, 20))
@settings(max_examples=25)
def test_any_rotation_leaves_the_negatives_unchanged(seed, angle):
    eta, phi, particle_id = random_event(seed, n_points=150)
    turned = wrap_phi(phi + angle)
    assert rows_of(pair_nearest_others(eta, phi, particle_id, 16)) == rows_of(
        pair_nearest_others(eta, turned, particle_id, 16)
    )


@given(data=st.data(), n_negatives=st.integers(1, 12))
@settings(max_examples=60)
def test_rules_hold_for_any_small_event(data, n_negatives):
    n_points = data.draw(st.integers(0, 30))
    values = st.lists(st.sampled_from([0.0, 0.25, -3.0, 3.1]), min_size=n_points, max_size=n_points)
    eta, phi = np.array(data.draw(values)), np.array(data.draw(values))
    ids = st.lists(st.integers(0, 4), min_size=n_points, max_size=n_points)
    particle_id = np.array(data.draw(ids), dtype=np.int64)
    negatives = pair_nearest_others(eta, phi, particle_id, n_negatives)
    for i in range(n_points):
        row = negatives.row(i)
        n_others = np.count_nonzero(particle_id != particle_id[i])
        assert len(row) == min(n_negatives, n_others)
        assert (np.diff(row) > 0).all()
        assert (particle_id[row] != particle_id[i]).all()
    # Only equal distances occur here: ties go to the lower index.
    assert rows_of(negatives) == nearest_by_brute_force(eta, phi, particle_id, n_negatives)


def test_all_points_in_one_place_take_the_lowest_indices():
    particle_id = np.arange(1, 41)
    negatives = pair_nearest_others(np.zeros(40), np.full(40, 3.14), particle_id, 5)
    assert negatives.row(0).tolist() == [1, 2, 3, 4, 5]
    assert negatives.row(3).tolist() == [0, 1, 2, 4, 5]
    assert negatives.row(30).tolist() == [0, 1, 2, 3, 4]


def test_neighbours_are_found_across_the_seam_of_phi():
    phi = np.array([3.14, -3.14, 3.0], dtype=np.float32)
    negatives = pair_nearest_others(np.zeros(3, dtype=np.float32), phi, np.array([1, 2, 3]), 1)
    assert rows_of(negatives) == [[1], [0], [0]]


def test_phi_that_float32_rounds_onto_the_seam():
    phi = np.array([np.pi, -np.pi, 0.0], dtype=np.float32)
    negatives = pair_nearest_others(np.zeros(3, dtype=np.float32), phi, np.array([1, 2, 3]), 1)
    assert rows_of(negatives)[:2] == [[1], [0]]


def test_a_particle_with_very_many_hits():
    eta, phi, particle_id = random_event(4, n_points=800)
    particle_id[:500] = 77
    expected = nearest_by_brute_force(eta, phi, particle_id, 20)
    assert rows_of(pair_nearest_others(eta, phi, particle_id, 20)) == expected


def test_the_size_of_blocks_does_not_change_the_result(monkeypatch):
    event = random_event(5)
    whole = pair_nearest_others(*event, 32)
    for size in (1, 7, 1000):
        monkeypatch.setattr(nearest, "BLOCK", size)
        assert rows_of(pair_nearest_others(*event, 32)) == rows_of(whole)


def test_dense_and_empty_regions_together():
    rng = np.random.default_rng(8)
    eta = np.concatenate([rng.normal(0.0, 1e-4, 300), rng.uniform(-5, 5, 60)])
    phi = np.concatenate([rng.normal(3.1415, 1e-4, 300), rng.uniform(-np.pi, np.pi, 60)])
    event = (eta, wrap_phi(phi), rng.integers(0, 90, 360))
    assert rows_of(pair_nearest_others(*event, 40)) == nearest_by_brute_force(*event, 40)


@pytest.mark.parametrize("particle_id", [[], [0, 0, 0], [5, 5, 5], [0], [9]])
def test_events_in_which_nobody_has_others(particle_id):
    particle_id = np.array(particle_id, dtype=np.int64)
    zeros = np.zeros(len(particle_id))
    negatives = pair_nearest_others(zeros, zeros, particle_id, 8)
    assert negatives.n_pairs == 0
    assert len(negatives.ptr) == len(particle_id) + 1


def test_noise_has_negatives_but_no_positives():
    eta, phi, particle_id = random_event(6)
    positives, negatives = pair_same_particle(particle_id), pair_nearest_others(eta, phi, particle_id, 8)
    noise = np.flatnonzero(particle_id == 0)
    assert (np.diff(positives.ptr)[noise] == 0).all()
    assert (np.diff(negatives.ptr)[noise] == 8).all()


def test_positives_are_all_pairs_of_a_particle():
    _, _, particle_id = random_event(7)
    positives = pair_same_particle(particle_id)
    for i, row in enumerate(rows_of(positives)):
        same = np.flatnonzero((particle_id == particle_id[i]) & (particle_id != 0))
        assert row == [j for j in same if j != i]
