import torch

from hept.losses.missing_pt import missing_pt_loss


def test_by_hand():
    # Cloud 1 is wrong by (3, 4)·10 GeV, cloud 2 by nothing: √(25 + 0.01) − 0.1 and 0, mean.
    error = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
    px, py = torch.tensor([20.0, 20.0, 7.0]), torch.tensor([40.0, 0.0, 7.0])
    loss = missing_pt_loss(error, px, py, torch.tensor([0, 2, 3]))
    torch.testing.assert_close(loss, torch.tensor(((25.01**0.5) - 0.1) / 2))
    loss.backward()
    assert torch.isfinite(error.grad).all()
    assert error.grad[0] > 0
