"""A device without float64 (Apple's GPUs), emulated on a CPU, where no operator may then return float64."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.plain import attend_plain
from hept.devices import precision
from hept.diagnosis.made_up_event import draw_event
from hept.losses import RandomNegatives, info_nce
from hept.metrics import average_precision_at_k


class WithoutFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, torch.Tensor) and each.dtype == torch.float64:
                raise TypeError(f"{func}: this device has no float64")
        return out


def attend():
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(2, 50, width, generator=generator).requires_grad_() for width in (5, 5, 4)]
    coords = (100 + torch.randn(2, 3, 50, generator=generator)).requires_grad_()
    orders = [torch.rand(3, 2, 50, generator=generator).argsort(-1) for _ in range(2)]
    blocks = cut_into_blocks(Clouds.from_offsets(torch.tensor([0, 50]), 50), 7)
    out = attend_plain(Operands(*rows, coords), Layout(*orders, blocks))
    return [out, *torch.autograd.grad(out.square().sum(), (*rows, coords))]


def lose(similarity):
    event = draw_event(300)
    # Far from the origin, differences of squares would lose all digits.
    x = 50 + 0.3 * torch.randn(300, 12, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    drawn = RandomNegatives(0.2, event.offsets, torch.Generator().manual_seed(0))
    lists = event.positives, event.negatives, event.particle, event.particle > 5
    loss = info_nce(x, *lists, similarity=similarity, random_negatives=drawn)
    return [loss, *torch.autograd.grad(loss, x)]


def score():
    event = draw_event(300)
    x = event.particle[:, None] + 0.6 * torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    return [torch.tensor(average_precision_at_k(x, event.particle, event.particle > 5).ap)]


WORKS = {
    "attention": attend,
    "published loss": lambda: lose("published"),
    "loss of the paper": lambda: lose("paper"),
    "AP@k": score,
}


@pytest.mark.parametrize("name", WORKS)
def test_the_same_numbers_without_float64(monkeypatch, name):
    expected = WORKS[name]()
    with pytest.raises(TypeError, match="no float64"), WithoutFloat64():
        WORKS[name]()
    monkeypatch.setattr(precision, "WITHOUT_FLOAT64", {"cpu"})
    with WithoutFloat64():
        found = WORKS[name]()
    for a, b in zip(found, expected, strict=True):
        assert (a - b).norm() < 1e-4 * b.norm()
