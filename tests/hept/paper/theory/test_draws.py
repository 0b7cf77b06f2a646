import numpy as np
import pytest

from hept.paper.theory.draws import hash_points, measure_lsh, measure_rff
from hept.paper.theory.lemmas import collision_probability, lsh_error, rff_mean_squared_error
from hept.paper.theory.square import draw_square, gaussian


@pytest.fixture
def square():
    return draw_square(300, 3.0, 10, np.random.default_rng(2))


def all_distances(square):
    distances = np.linalg.norm(square.points[:, None] - square.points[None], axis=-1)
    return distances[~np.eye(square.n_points, dtype=bool)]


def test_codes_agree_exactly_where_all_functions_do(square):
    rng = np.random.default_rng(7)
    code = hash_points(square.points, 0.5, 3, rng)
    rng = np.random.default_rng(7)
    directions, shifts = rng.standard_normal((2, 3)), rng.uniform(0, 0.5, 3)
    buckets = np.floor((square.points @ directions + shifts) / 0.5)
    same = (buckets[:, None] == buckets[None]).all(axis=-1)
    np.testing.assert_array_equal(code[:, None] == code[None], same)


def test_drawn_tables_meet_the_expected_error_and_collisions(square):
    rng = np.random.default_rng(0)
    draws = np.array([measure_lsh(square, 0.4, 2, 2, rng) for _ in range(400)])
    collisions, error = draws.mean(axis=0)
    spread = draws.std(axis=0) / 20
    near = collision_probability(square.distances, 0.4)
    expected_error = lsh_error(near, gaussian(square.distances), 2, 2).sum() / square.n_pairs
    expected_collisions = 2 * (collision_probability(all_distances(square), 0.4) ** 2).sum() / 2
    assert abs(error - expected_error) < 4 * spread[1]
    assert abs(collisions - expected_collisions) < 4 * spread[0]


def test_one_wide_bucket_joins_everything_and_errs_nowhere(square):
    collisions, error = measure_lsh(square, 1e9, 1, 1, np.random.default_rng(0))
    assert collisions == square.n_pairs / 2
    assert error == 0


def test_drawn_features_err_by_their_variance_and_by_the_cut(square):
    rng = np.random.default_rng(0)
    draws = np.array([measure_rff(square, 16, rng) for _ in range(300)])
    z = all_distances(square)
    variance = rff_mean_squared_error(gaussian(z), gaussian(2 * z), 16).mean()
    cut = (np.square(gaussian(z)).sum() - np.square(gaussian(square.distances)).sum()) / square.n_pairs
    assert abs(draws.mean() - variance - cut) < 4 * draws.std() / np.sqrt(300)
