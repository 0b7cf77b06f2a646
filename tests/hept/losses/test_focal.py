import numpy as np
import pytest
import torch

from hept.losses import focal_loss


def test_value_by_hand():
    # p of the true class: 0.8 and 0.5
    logits = torch.tensor([np.log(4), 0.0], dtype=torch.float64)
    expected = 0.25 * (0.2**2 * -np.log(0.8) + 0.5**2 * -np.log(0.5)) / 2
    assert float(focal_loss(logits, torch.tensor([True, False]))) == pytest.approx(expected)


def test_gamma_zero_is_cross_entropy():
    logits = torch.linspace(-4, 4, 9, dtype=torch.float64)
    labels = torch.arange(9) % 2 == 0
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.double())
    torch.testing.assert_close(focal_loss(logits, labels, alpha=1.0, gamma=0.0), expected)


def test_extreme_logits_have_finite_gradients():
    logits = torch.tensor([[-200.0], [200.0]], requires_grad=True)
    focal_loss(logits, torch.tensor([True, False])).backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0] < 0 < logits.grad[1]


def test_no_point_costs_nothing():
    logits = torch.zeros(0, requires_grad=True)
    loss = focal_loss(logits, torch.zeros(0, dtype=torch.bool))
    loss.backward()
    assert float(loss.detach()) == 0


def test_shares_of_a_joined_batch_add_up():
    logits, labels = torch.randn(7, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 3 == 0
    shares = focal_loss(logits[:2], labels[:2], normaliser=7) + focal_loss(
        logits[2:], labels[2:], normaliser=7
    )
    torch.testing.assert_close(shares, focal_loss(logits, labels))


def test_wrong_length_is_named():
    with pytest.raises(ValueError, match=r"is_positive has shape \(3,\); logits have 2 points"):
        focal_loss(torch.zeros(2), torch.zeros(3, dtype=torch.bool))


def test_value_and_gradient_are_those_of_the_published_formula():
    """The published code uses probabilities: α (1 − p)^γ · −log p of the true class."""
    generator = torch.Generator().manual_seed(1)
    p = (0.01 + 0.98 * torch.rand(500, generator=generator, dtype=torch.float64)).requires_grad_()
    is_positive = torch.rand(500, generator=generator) < 0.2
    p_true = torch.where(is_positive, p, 1 - p)
    expected = (-0.25 * (1 - p_true) ** 2 * torch.log(p_true)).mean()
    expected.backward()
    logits = torch.logit(p.detach()).requires_grad_()
    loss = focal_loss(logits, is_positive)
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    # dp/dlogit = p (1 − p)
    torch.testing.assert_close(logits.grad, p.grad * (p * (1 - p)).detach(), rtol=1e-9, atol=1e-15)


def test_published_value_and_gradient(real_file):
    golden = np.load(real_file("golden/loss_event1.npz"))
    p = torch.from_numpy(golden["focal_p"]).double()
    logits = torch.logit(p).requires_grad_()
    loss = focal_loss(logits, torch.from_numpy(golden["focal_y"]) > 0.5)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(golden["focal_loss"]), abs=1e-7)
    # The golden gradient is with respect to probabilities: dp/dlogit = p (1 − p).
    expected = torch.from_numpy(golden["focal_grad"]).double() * p * (1 - p)
    torch.testing.assert_close(logits.grad, expected, rtol=1e-4, atol=1e-8)
