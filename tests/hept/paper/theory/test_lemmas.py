import numpy as np
import pytest
from scipy.integrate import quad

from hept.paper.theory.lemmas import (
    bound_collision_probability,
    collision_probability,
    count_lsh_flops,
    count_rff_flops,
    lsh_error,
    rff_mean_squared_error,
)


@pytest.mark.parametrize(("z", "r"), [(0.1, 1.0), (1.0, 1.0), (3.0, 1.0), (0.5, 2.5), (40.0, 0.3)])
def test_collision_probability_is_its_integral(z, r):
    def density(t):
        return 2 / np.sqrt(2 * np.pi) * np.exp(-0.5 * (t / z) ** 2) / z * (1 - t / r)

    assert collision_probability(np.array([z]), r)[0] == pytest.approx(quad(density, 0, r)[0], rel=1e-9)


def test_points_at_one_place_always_collide():
    assert collision_probability(np.array([0.0]), 0.2)[0] == 1.0


def test_a_bucket_needs_a_width():
    with pytest.raises(ValueError, match="r is 0"):
        collision_probability(np.array([1.0]), 0)


@pytest.mark.parametrize("r", [0.01, 1.0, 5.0])
def test_bounds_hold_and_are_not_trivial(r):
    z = r * np.geomspace(1e-5, 1e5, 5000)
    lower, upper = bound_collision_probability(z, r)
    probability = collision_probability(z, r)
    assert (lower <= probability + 1e-12).all()
    assert (probability <= upper + 1e-12).all()
    assert (upper / lower < 3.1).all()


def test_one_table_of_one_function_errs_by_what_it_misses():
    error = lsh_error(np.array([0.25, 1.0]), np.array([0.5, 1.0]), 1, 1)
    np.testing.assert_allclose(error, [0.75 * 0.25, 0.0])


def test_tables_help_and_functions_hurt_the_error():
    p, k = np.array([0.6]), np.array([1.0])
    assert lsh_error(p, k, 4, 1) < lsh_error(p, k, 2, 1) < lsh_error(p, k, 2, 2)


def test_rff_error_by_direct_average():
    rng = np.random.default_rng(3)
    z, n_features = 0.7, 16
    estimates = np.cos(rng.standard_normal((200_000, n_features // 2)) * z).mean(axis=1)
    k, k2 = np.exp(-0.5 * z**2), np.exp(-2 * z**2)
    measured = np.square(estimates - k).mean()
    assert rff_mean_squared_error(np.array([k]), np.array([k2]), n_features)[0] == pytest.approx(
        measured, rel=0.02
    )


def test_rff_operations_counted_by_hand():
    # n = 2, d = 1, D = 2: projections 4 and scalings 2; 2x2 by 2x1 takes 6, and again 2x2 by 2x1 takes 6.
    assert count_rff_flops(2, 1, 2) == 4 + 2 + 6 + 6


def test_lsh_operations_counted_by_hand():
    # n = 3, d = 2, two tables of two functions, one colliding pair each:
    # hashing 3*2*3 = 18, kernel 7, product of blocks of 2 and 1: 2*2*3 + 2*1*1 = 14; adding 6.
    assert count_lsh_flops(3, 2, 2, 2, 1) == 2 * (18 + 7 + 14) + 6
