from itertools import pairwise

import numpy as np
import pytest

from hepdata.features.curve import BITS, SIDE, curve_order


def centres_of_grid(n_per_side: int) -> tuple[np.ndarray, np.ndarray]:
    """Points at the centres of a patch of adjacent cells of the curve."""
    width = SIDE / (1 << BITS)
    index = np.arange(n_per_side)
    x, y = np.meshgrid(index, index, indexing="ij")
    return (x.ravel() + 0.5) * width, (y.ravel() + 0.5) * width


def test_curve_steps_from_each_cell_to_a_neighbour():
    eta, phi = centres_of_grid(16)
    order = curve_order(eta, phi)
    width = SIDE / (1 << BITS)
    steps = (np.abs(np.diff(eta[order])) + np.abs(np.diff(phi[order]))) / width
    assert np.allclose(steps, 1.0)


def test_order_is_a_permutation_even_with_infinite_eta():
    rng = np.random.default_rng(1)
    eta = np.concatenate([rng.normal(size=100), [np.inf, -np.inf]])
    phi = rng.uniform(-np.pi, np.pi, 102)
    assert sorted(curve_order(eta, phi)) == list(range(102))


def test_equal_points_keep_their_order():
    assert curve_order(np.ones(50), np.ones(50)).tolist() == list(range(50))


def test_no_points():
    assert curve_order(np.array([]), np.array([])).tolist() == []


def test_a_full_turn_changes_nothing():
    rng = np.random.default_rng(2)
    eta, phi = rng.normal(size=500), rng.uniform(-3, 3, 500)
    assert (curve_order(eta, phi) == curve_order(eta, phi + 2 * np.pi)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_get_nearby_indices(dtype):
    rng = np.random.default_rng(3)
    eta = rng.uniform(-4, 4, 20_000).astype(dtype)
    phi = rng.uniform(-np.pi, np.pi, 20_000).astype(dtype)
    order = curve_order(eta, phi)
    step = np.hypot(np.diff(eta[order]), np.diff(phi[order]))
    # The mean spacing of 20,000 points is 0.05; a random order would step by about 3.
    assert np.median(step) < 0.06


def test_points_of_one_cell_in_the_order_of_ties():
    rng = np.random.default_rng(4)
    eta, phi = np.repeat(rng.normal(size=20), 5), np.repeat(rng.uniform(-3, 3, 20), 5)
    ties = rng.normal(size=100)
    order = curve_order(eta, phi, ties)
    mixed = rng.permutation(100)
    assert (mixed[curve_order(eta[mixed], phi[mixed], ties[mixed])] == order).all()
    for first in range(0, 100, 5):
        cell = order[first : first + 5]
        assert len(set(eta[cell])) == 1
        assert (np.diff(ties[cell]) > 0).all()


@pytest.mark.parametrize("sizes", [(300, 0, 1, 500), (0, 0), (40,)])
def test_clouds_one_after_the_other_are_lined_up_each_on_its_own(sizes):
    rng = np.random.default_rng(5)
    n = sum(sizes)
    # A coarse grid: many points share a cell, also with points of the next cloud.
    eta, phi = rng.integers(-3, 4, n) / 2, rng.integers(-3, 4, n) / 2
    ties = rng.normal(size=n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    apart = [
        begin + curve_order(eta[begin:end], phi[begin:end], ties[begin:end])
        for begin, end in pairwise(offsets)
    ]
    assert (curve_order(eta, phi, ties, offsets) == np.concatenate(apart)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_begin_where_they_should(dtype):
    """Points just below and at a border between cells, against plain arithmetic on whole numbers."""
    from hepdata.features.curve import _find_cells

    cells = np.array([0, 1, 32767, 32768, 40000, 65535])
    at = ((cells - 32768) / 4096).astype(dtype)
    assert _find_cells(at).tolist() == cells.tolist()
    below = np.nextafter(at[1:], dtype(-np.inf))
    assert _find_cells(below).tolist() == (cells[1:] - 1).tolist()
    assert _find_cells(np.array([-np.inf, -8.1, 8, np.inf], dtype)).tolist() == [0, 0, 65535, 65535]
