import numpy as np
import pytest

from hepdata.pairs.published_definition import pair_published


def pairs_by_hand(eta, phi, particle_id, n_negatives, radius):
    """The published procedure, particle after particle, in sets."""
    n_points = len(eta)
    near = [set() for _ in range(n_points)]
    for i in range(n_points):
        distance = np.hypot(eta - eta[i], phi - phi[i])
        close = [j for j in np.argsort(distance) if j != i and distance[j] < radius][:n_negatives]
        for j in close:
            near[i].add(j)
            near[j].add(i)
    pairs = set()
    for particle in set(particle_id) - {0}:
        hits = np.flatnonzero(particle_id == particle)
        if len(hits) < 2:
            continue
        reached = set().union(*(near[i] for i in hits)) | set(hits)
        pairs |= {(i, j) for i in hits for j in reached} | {(j, i) for i in hits for j in reached}
    return {(int(i), int(j)) for i, j in pairs if i != j}


def as_set(*lists):
    return {(int(i), int(j)) for pairs in lists for i, j in pairs.as_edges().T}


@pytest.mark.parametrize(("n_negatives", "radius"), [(8, 1.0), (256, 0.5), (3, 5.0)])
def test_pairs_equal_the_procedure_in_sets(n_negatives, radius):
    rng = np.random.default_rng(n_negatives)
    eta, phi = rng.uniform(-3, 3, 250), rng.uniform(-np.pi, np.pi, 250)
    particle_id = rng.integers(0, 60, 250)
    positives, negatives = pair_published(eta, phi, particle_id, n_negatives, radius)
    expected = pairs_by_hand(eta, phi, particle_id, n_negatives, radius)
    assert as_set(positives, negatives) == expected
    assert all(particle_id[i] == particle_id[j] for i, j in as_set(positives))
    assert all(particle_id[i] != particle_id[j] for i, j in as_set(negatives))
    for pairs in (positives, negatives):
        assert all((np.diff(pairs.row(i)) > 0).all() for i in range(250))


@pytest.mark.parametrize("name", ["one_sector", "sector0_of_ten"])
def test_pairs_of_the_real_event_equal_the_golden_ones(real_file, name):
    golden = np.load(real_file(f"golden/event1_pixel_{name}.npz"))
    eta, phi = golden["pos"].T
    positives, negatives = pair_published(eta, phi, golden["particle_id"], 256, 1.0)
    assert positives.n_pairs + negatives.n_pairs == golden["pairs"].shape[1]
    assert as_set(positives, negatives) == set(map(tuple, golden["pairs"].T.tolist()))


@pytest.mark.parametrize("particle_id", [[], [0, 0], [1, 2, 3]])
def test_without_particles_of_two_hits_there_are_no_pairs(particle_id):
    particle_id = np.array(particle_id, dtype=np.int64)
    zeros = np.zeros(len(particle_id))
    positives, negatives = pair_published(zeros, zeros, particle_id, 256, 1.0)
    assert positives.n_pairs == negatives.n_pairs == 0
