"""What TF32 and half precision may touch: emulated on a CPU, on published and on random weights."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hept import HEPT, load_published
from hept.attention.kernels import find_backend
from hept.devices.precision import exact_products, mixed_precision
from hept.model.network import InPrecision

PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}


def round_to_tf32(x):
    """float32 with 10 bits behind the point, rounded as tensor cores do."""
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


class EmulatedTF32(TorchDispatchMode):
    """Rounds the operands of matrix products while the user's switch allows it, as a GPU does."""

    n_exact = n_rounded = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        first = PRODUCTS.get(func._schema.name)
        if first is not None and allows_tf32():
            args = (*args[:first], *(round_to_tf32(each) for each in args[first:]))
            self.n_rounded += 1
        elif first is not None:
            self.n_exact += 1
        return func(*args, **(kwargs or {}))


def allows_tf32():
    switch = torch.backends.cuda.matmul
    return switch.fp32_precision == "tf32" if hasattr(switch, "fp32_precision") else switch.allow_tf32


@pytest.fixture
def tf32():
    """TF32 switched on as Lightning and torch advise users to."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield EmulatedTF32()
    torch.set_float32_matmul_precision(before)


def error(out, truth):
    return float((out.double() - truth).norm() / truth.norm())


def use_backend(model, backend):
    for block in model.blocks:
        block.attention.attend = find_backend(backend)


def make_random(n_points=700):
    torch.manual_seed(0)
    model = HEPT(15, 6, 12, n_layers=2, periods={1: 6.28}).eval()
    coords = 3 * torch.randn(n_points, 6)
    return model, torch.randn(n_points, 15), coords, torch.tensor([0, 300, n_points])


@pytest.fixture(scope="module")
def published(real_file):
    golden = np.load(real_file("golden/checkpoint_n6000.npz"))
    model = load_published(real_file("data/checkpoint/tracking-60k-model.pt")).eval()
    features, coords = (torch.tensor(golden[name]).float() for name in ("x", "coords"))
    return model, features, coords, torch.tensor([0, len(features)]), torch.tensor(golden["out_float64"])


def test_the_emulation_acts_and_the_switch_ends_it(tf32):
    torch.manual_seed(0)
    a, b = torch.randn(50, 60), torch.randn(60, 40)
    truth = a.double() @ b.double()
    with tf32:
        rounded = a @ b
        with exact_products():
            exact = a @ b
        assert torch.equal(a @ b, rounded)
    assert 1e-4 < error(rounded, truth) < 1e-3
    assert error(exact, truth) < 1e-6


@pytest.mark.parametrize("backend", ["plain", "auto"])
@torch.no_grad()
def test_tf32_reaches_the_wide_layers_of_the_head_alone(tf32, backend):
    model, features, coords, offsets = make_random()
    use_backend(model, backend)
    truth = model.double()(features.double(), coords.double(), offsets)
    model.float()
    with tf32:
        out = model(features, coords, offsets)
    assert tf32.n_rounded == sum(isinstance(each, torch.nn.Linear) for each in model.head.mlp)
    assert tf32.n_exact > 0
    assert error(out, truth) < 1e-3


@pytest.mark.parametrize("backend", ["plain", "auto"])
@torch.no_grad()
def test_the_published_model_keeps_its_digits_with_tf32(tf32, published, backend):
    model, features, coords, offsets, truth = published
    use_backend(model, backend)
    with tf32:
        out = model(features, coords, offsets)
    # In float32 it is 0.99e-3.
    assert error(out, truth) < 1e-3


@pytest.mark.parametrize(("precision", "most"), [("bf16-mixed", 2e-3), ("16-mixed", 1.1e-3)])
@torch.no_grad()
def test_the_published_model_keeps_its_digits_in_half_precision(published, precision, most):
    model, features, coords, offsets, truth = published
    use_backend(model, "auto")
    assert error(InPrecision(model, precision)(features, coords, offsets), truth) < most


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("is_classifier", [False, True])
@torch.no_grad()
def test_blocks_are_float32_and_wide_layers_half(precision, is_classifier):
    model, features, coords, offsets = make_random()
    if is_classifier:
        torch.manual_seed(0)
        model = HEPT(15, 6, 1, n_layers=2, head="classification").eval()
    seen = {}
    for name, module in model.named_modules():
        module.register_forward_hook(
            lambda _, __, out, name=name: seen.update({name: out.dtype} if torch.is_tensor(out) else {})
        )
    out = InPrecision(model, precision)(features, coords, offsets)
    half = torch.bfloat16 if precision == "bf16-mixed" else torch.float16
    is_half = {name for name, dtype in seen.items() if dtype == half}
    prefix = "head.embed.mlp" if is_classifier else "head.mlp"
    assert {f"{prefix}.0", f"{prefix}.3", prefix} <= is_half
    allowed = ("head.mlp", "head.embed.mlp", "head.dropout", "head.embed.dropout")
    assert all(name.startswith(allowed) for name in is_half)
    assert out.dtype == torch.float32
    truth = model.double()(features.double(), coords.double(), offsets)
    assert error(out, truth) < 5e-3


def test_true_precisions_change_nothing():
    for precision in ("32-true", "64-true"):
        with mixed_precision(torch.device("cpu"), precision):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
