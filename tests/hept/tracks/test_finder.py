import numpy as np
import pytest

from hept.tracks.finder import cluster


@pytest.mark.parametrize("method", ["dbscan", "hdbscan"])
def test_separate_groups_are_found_and_strays_left_out(method):
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.normal(centre, 0.02, (8, 3)) for centre in (0, 1, 2)])
    labels = cluster(np.concatenate([groups, [[10.0, 10, 10]]]), method=method, eps=0.3, min_points=3)
    assert [len(set(labels[8 * i : 8 * i + 8])) for i in range(3)] == [1, 1, 1]
    assert len(set(labels[:24])) == 3
    assert labels[24] == -1


@pytest.mark.parametrize("n_points", [0, 1, 2])
def test_clouds_too_small_for_a_track(n_points):
    for method in ("dbscan", "hdbscan"):
        assert (cluster(np.zeros((n_points, 2)), method=method, min_points=3) == -1).all()
    assert (cluster(np.zeros((1, 2)), min_points=1) == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "kmeans"}, "method is 'kmeans'"),
        ({"eps": 0.0}, "eps is 0.0; it must be positive"),
        ({"min_points": 0}, "min_points is 0; it must be at least 1"),
        ({"method": "hdbscan", "min_points": 1}, "min_points is 1; it must be at least 2"),
    ],
)
def test_unusable_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        cluster(np.zeros((5, 2)), **options)
