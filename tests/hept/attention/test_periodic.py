"""Angles on their circle."""

import math

import torch

from hept.attention.definition import find_turn, lift_periodic


def test_close_angles_are_as_far_as_their_difference_also_across_the_seam():
    for middle in (0.0, 2.0, math.pi):
        coords = torch.tensor([[5.0, middle - 0.001], [5.0, middle + 0.001]], dtype=torch.float64)
        lifted = lift_periodic(coords, {1: 2 * math.pi})
        assert torch.isclose(lifted.diff(dim=0).norm(), torch.tensor(0.002).double(), rtol=1e-5)


def test_columns_keep_their_order_and_other_periods_their_scale():
    coords = torch.tensor([[1.0, -1.0, 3.0], [1.0, 1.0, 3.0]])
    lifted = lift_periodic(coords, {1: 2.0})
    assert lifted.shape == (2, 4)
    assert torch.equal(lifted[:, [0, 3]], coords[:, [0, 2]])
    # −1 and 1 are the same point of a circle of circumference 2.
    assert torch.allclose(lifted[0], lifted[1], atol=1e-6)


def test_turns_lie_in_one_circle():
    turn = find_turn(torch.tensor([-1e-12, 0.0, math.pi, -math.pi / 2, 7.0]), 2 * math.pi)
    assert (turn >= 0).all()
    assert (turn < 1).all()
    assert torch.allclose(turn, torch.tensor([0.0, 0.0, 0.5, 0.75, 7 / (2 * math.pi) - 1]), atol=1e-6)
