import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.simulate.clusters import CELL_NOISE, THRESHOLD, Grid, find_centres, ionise, make_noise

PITCH = (0.05, 0.06)
DEPTH = 0.2


def make_square(n: int, half: float = 3.0) -> Grid:
    return Grid(PITCH, np.full((n, 2), half), np.tile(np.array([120, 100]), (n, 1)))


def cross(middle, tangent, seed=0):
    grid = make_square(len(middle))
    return grid, ionise(
        grid, np.array(middle), np.array(tangent), np.full(len(middle), DEPTH), np.random.default_rng(seed)
    )


def test_a_perpendicular_track_leaves_one_cell_and_is_measured_at_its_middle():
    grid, cells = cross([(0.02, 0.01)], [(0.0, 0.0)])
    assert (cells.ch0.tolist(), cells.ch1.tolist()) == ([60], [50])
    np.testing.assert_allclose(find_centres(cells, grid), [(0.025, 0.03)])
    assert cells.value[0] == pytest.approx(DEPTH, rel=0.6)


def test_a_track_leaves_the_cells_counted_by_hand():
    # 0.2 mm of silicon at tan = 1 is 4 cells of 0.05: 2 to either side of the middle of a cell.
    _, cells = cross([(0.025, 0.03)], [(1.0, 0.0)])
    assert cells.ch0.tolist() == [58, 59, 60, 61, 62]
    assert set(cells.ch1.tolist()) == {50}


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_cells_are_those_of_a_finely_sampled_track(seed):
    # Drawn from a seed, not as numbers: a track exactly along an edge belongs to the cells of either side.
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-2, 2, 2)
    tan_u, tan_v = rng.normal(0, 3, 2)
    _, cells = cross([(u, v)], [(tan_u, tan_v)], seed)
    depth = (np.arange(40_000) + 0.5) / 40_000 * DEPTH - DEPTH / 2
    ch0 = np.floor((u + depth * tan_u + 3.0) / PITCH[0]).astype(int)
    ch1 = np.floor((v + depth * tan_v + 3.0) / PITCH[1]).astype(int)
    sampled, counts = np.unique(np.stack([ch0, ch1], axis=1), axis=0, return_counts=True)
    path = counts / 40_000 * DEPTH * np.sqrt(1 + tan_u**2 + tan_v**2)
    expected = {tuple(cell): length for cell, length in zip(sampled.tolist(), path, strict=True)}
    found = dict(
        zip(zip(cells.ch0.tolist(), cells.ch1.tolist(), strict=True), cells.value.tolist(), strict=True)
    )
    assert len(found) == len(cells.value)
    assert found.keys() <= expected.keys() | {key for key in found if found[key] < 5 * THRESHOLD}
    for cell, length in expected.items():
        if 0.3 * length > THRESHOLD + 5 * CELL_NOISE:
            assert 0.3 * length - 5 * CELL_NOISE < found[cell] < 3 * length + 5 * CELL_NOISE


def test_charge_follows_the_length_of_the_track():
    n = 4000
    rng = np.random.default_rng(4)
    for tangent in (0.0, 1.0, 5.0):
        middle = rng.uniform(-1, 1, (n, 2))
        _, cells = cross(middle, np.full((n, 2), (0.0, tangent)), seed=6)
        mean = np.bincount(cells.cluster, cells.value, n).mean()
        assert mean == pytest.approx(DEPTH * np.hypot(1, tangent), rel=0.05)


def test_the_resolution_is_that_of_the_pitch():
    n = 20_000
    middle = np.random.default_rng(5).uniform(-1, 1, (n, 2))
    grid, cells = cross(middle, np.zeros((n, 2)))
    error = (find_centres(cells, grid) - middle).std(axis=0)
    np.testing.assert_allclose(error, np.array(PITCH) / np.sqrt(12), rtol=0.02)


def test_cells_stay_on_the_module_and_every_cluster_keeps_one():
    n = 500
    rng = np.random.default_rng(8)
    middle = np.where(rng.random((n, 2)) < 0.5, -2.99, 2.99)
    grid, cells = cross(middle, rng.uniform(-60, 60, (n, 2)))
    assert np.array_equal(np.unique(cells.cluster), np.arange(n))
    assert cells.ch0.min() >= 0
    assert cells.ch1.min() >= 0
    assert np.all(cells.ch0 < grid.size[cells.cluster, 0])
    assert np.all(cells.ch1 < grid.size[cells.cluster, 1])
    assert cells.value.min() >= THRESHOLD


def test_no_cell_appears_twice_in_a_cluster():
    n = 2000
    rng = np.random.default_rng(9)
    _, cells = cross(rng.uniform(-2, 2, (n, 2)), rng.normal(0, 4, (n, 2)))
    keys = np.stack([cells.cluster, cells.ch0, cells.ch1], axis=1)
    assert len(np.unique(keys, axis=0)) == len(keys)
    assert np.all(np.diff(cells.cluster) >= 0)


def test_noise_is_small_connected_and_on_the_module():
    n = 3000
    rng = np.random.default_rng(10)
    grid = make_square(n)
    cells = make_noise(grid, rng.uniform(-3, 3, (n, 2)), rng)
    assert np.array_equal(np.unique(cells.cluster), np.arange(n))
    assert 1.3 < len(cells.value) / n < 2.0
    assert cells.ch0.min() >= 0
    assert np.all(cells.ch1 < 100)
    same = np.diff(cells.cluster) == 0
    steps = np.abs(np.diff(cells.ch0)) + np.abs(np.diff(cells.ch1))
    assert np.all(steps[same] == 1)
    assert np.bincount(cells.cluster, cells.value).mean() < DEPTH
