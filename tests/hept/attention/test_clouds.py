"""Offsets become per-point clouds, and wrong ones are refused."""

import pytest
import torch

from hept import Clouds


def test_points_know_their_cloud_past_empty_ones():
    clouds = Clouds.from_offsets(torch.tensor([0, 0, 2, 2, 5, 5]), 5)
    assert clouds.index.tolist() == [1, 1, 3, 3, 3]
    assert clouds.sizes.tolist() == [0, 2, 0, 3, 0]
    assert (clouds.n_points, clouds.n_clouds) == (5, 5)
    assert clouds.spread(torch.arange(5) * 10).tolist() == [10, 10, 30, 30, 30]


@pytest.mark.parametrize(
    "offsets",
    [torch.tensor([0.0, 5.0]), torch.tensor([0]), torch.tensor([[0, 5]]), torch.tensor([0, 5]).int()],
)
def test_offsets_of_another_kind_are_refused(offsets):
    with pytest.raises(ValueError, match=r"offsets: got shape .* need int64 of shape \(n_clouds \+ 1,\)"):
        Clouds.from_offsets(offsets, 5)


@pytest.mark.parametrize("offsets", [[0, 4], [1, 5], [0, 3, 2, 5], [0, 6]])
def test_offsets_that_do_not_cut_the_points_are_refused(offsets):
    with pytest.raises(ValueError, match=r"offsets: got .* for 5 points, need ascending values from 0"):
        Clouds.from_offsets(torch.tensor(offsets), 5)
