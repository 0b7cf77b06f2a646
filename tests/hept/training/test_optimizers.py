from copy import deepcopy

import pytest
import torch
from torch import nn

from hepdata.errors import InputError
from hept.settings.train_config import OptimizerConfig
from hept.training.optimizers import make_optimizer

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="needs torch 2.9")


def make(lr=0.01, **settings):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 24), nn.LayerNorm(24), nn.Linear(24, 3))
    return network, make_optimizer(network, OptimizerConfig(kind="muon", lr=lr, **settings))


def step(network, optimizer, seed):
    x = torch.randn(32, 6, generator=torch.Generator().manual_seed(seed))
    network(x).square().mean().backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    optimizer.step()
    optimizer.zero_grad()
    return gradients


def test_matrices_move_along_the_orthogonal_factor_and_the_rest_as_in_adam():
    network, optimizer = make()
    before = [parameter.detach().clone() for parameter in network.parameters()]
    gradients = step(network, optimizer, 0)
    for old, new, gradient in zip(before, network.parameters(), gradients, strict=True):
        change = (new.detach() - old) / 0.01
        if new.ndim == 1:
            # The first step of Adam is the sign of the gradient.
            is_large = gradient.abs() > 1e-4
            torch.testing.assert_close(change[is_large], -gradient[is_large].sign(), rtol=1e-3, atol=0)
            continue
        u, s, vh = torch.linalg.svd(gradient, full_matrices=False)
        factors = -(u.T @ change @ vh.T) / (0.2 * max(gradient.shape) ** 0.5)
        # Five Newton-Schulz steps bring singular values near 1, in bfloat16.
        large = factors.diagonal()[s > 0.05 * s[0]]
        assert len(large) > 0
        assert large.min() > 0.5
        assert large.max() < 1.4
        assert (factors - factors.diagonal().diag()).abs().max() < 0.1


def test_every_parameter_has_one_group_and_a_rate_reaches_both():
    network, optimizer = make(weight_decay=0.1)
    shapes = [[p.ndim for p in group["params"]] for group in optimizer.param_groups]
    assert shapes == [[2, 2], [1, 1, 1, 1]]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.1]
    before = [parameter.detach().clone() for parameter in network.parameters()]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    step(network, optimizer, 0)
    assert all(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))


def test_a_restored_optimiser_goes_on_undisturbed():
    network, optimizer = make()
    step(network, optimizer, 0)
    other, restored = make()
    other.load_state_dict(network.state_dict())
    restored.load_state_dict(deepcopy(optimizer.state_dict()))
    for rate, seed in ((0.02, 1), (0.01, 2)):
        for each, its in ((network, optimizer), (other, restored)):
            for group in its.param_groups:
                group["lr"] = rate
            step(each, its, seed)
    pairs = zip(network.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def test_a_torch_without_muon_is_one_line(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(InputError, match=r"kind=muon: found torch .*; expected torch 2.9 or newer"):
        make()
