import numpy as np
import pytest

from hept.paper.theory.square import count_distances, draw_square, gaussian


@pytest.fixture
def square():
    return draw_square(120, 2.0, 8, np.random.default_rng(1))


def test_neighbors_are_the_brute_force_ones(square):
    distances = np.linalg.norm(square.points[:, None] - square.points[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    expected = np.sort(distances, axis=1)[:, :8]
    np.testing.assert_allclose(square.distances, expected)
    np.testing.assert_allclose(np.take_along_axis(distances, square.neighbors, axis=1), expected)


@pytest.mark.parametrize("chunk", [8_000_000, 500])
def test_histograms_stand_for_the_pairs(square, chunk, monkeypatch):
    monkeypatch.setattr("hept.paper.theory.square.CHUNK_VALUES", chunk)
    everywhere, near = count_distances(square)
    distances = np.linalg.norm(square.points[:, None] - square.points[None], axis=-1)
    off_diagonal = distances[~np.eye(120, dtype=bool)]
    assert everywhere.counts.sum() == 120 * 119
    assert near.counts.sum() == 120 * 8
    assert everywhere.total(gaussian(everywhere.z)) == pytest.approx(gaussian(off_diagonal).sum(), rel=1e-3)
    assert near.total(near.z) == pytest.approx(square.distances.sum(), rel=1e-2)


def test_more_neighbors_than_points_is_refused():
    with pytest.raises(ValueError, match="n_neighbors is 5; it must be below n_points, 5"):
        draw_square(5, 1.0, 5, np.random.default_rng(0))
