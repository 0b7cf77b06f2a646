"""Every kernel that this machine can run, against float64 in plain torch: forward and backward.

Axes: H heads, N points, C tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels import BACKENDS, native, triton
from hept.attention.kernels.operands import Blocks, Layout, Operands
from hept.attention.kernels.operators import BlockAttention
from hept.attention.kernels.plain import attend_plain
from hept.diagnosis.made_up_event import draw_event
from hept.diagnosis.verdict import Verdict, judge, skip
from hept.losses import info_nce
from hept.metrics import average_precision_at_k
from hept.model.transformer import HEPT

# Relative errors above rounding in float32; products of three TF32 parts have an error of 2e-5.
MOST_FORWARD, MOST_BACKWARD = 1e-4, 1e-3
# Rounding gives a few points another hash, so that they attend to other points; this is no error.
MOST_MOVED = 0.02
# Clouds of the published sizes and one each that is empty, of one point, and smaller than a block.
CLOUDS = (700, 0, 1, 40, 259)
HOST = torch.device("cpu")


def check_kernels(device: torch.device) -> Iterator[Verdict]:
    """A verdict on every kernel, on the loss, on AP@k and on the whole model."""
    for name in BACKENDS:
        if name != "auto":
            yield _check_attention(name, device)
    yield _check_loss(device)
    yield _check_metric(device)
    yield _check_model(device)


def _check_attention(name: str, device: torch.device) -> Verdict:
    operands, layout = _draw_operands()
    here = _move(operands, device)
    title = f"attention, {name}"
    if name == "native" and not native.can_attend(here):
        return skip(
            title, "compiled loops are for CPUs" if device.type != "cpu" else "no compiled loops here"
        )
    if name == "triton" and (device.type == "cpu" or not triton.can_attend(here)):
        return skip(title, "Triton's kernels are for GPUs of compute capability 8.0 and later")
    found = _differentiate(BACKENDS[name], here, _move_layout(layout, device))
    double = Operands(*(each.double() for each in _tensors(operands)))
    exact = _differentiate(attend_plain, double, layout)
    errors = [_compare(a, b) for a, b in zip(found, exact, strict=True)]
    return _judge_errors(title, errors[0], max(errors[1:]))


def _check_loss(device: torch.device) -> Verdict:
    event = draw_event(1000)
    x = torch.randn(1000, 12, generator=torch.Generator().manual_seed(1))
    results = []
    for where, embeddings in ((device, x.to(device)), (HOST, x.double())):
        here = event.to(where)
        embeddings = embeddings.requires_grad_()
        lists = here.positives, here.negatives, here.particle, here.particle > 0
        loss = info_nce(embeddings, *lists)
        (grad,) = torch.autograd.grad(loss, embeddings)
        results.append((loss.detach(), grad))
    (loss, grad), (exact_loss, exact_grad) = results
    return _judge_errors("loss, InfoNCE", _compare(loss, exact_loss), _compare(grad, exact_grad))


def _check_metric(device: torch.device) -> Verdict:
    event = draw_event(3000)
    x = torch.randn(3000, 12, generator=torch.Generator().manual_seed(2))
    x = x + 4 * torch.randn(301, 12, generator=torch.Generator().manual_seed(3))[event.particle]
    everything = torch.ones(3000, dtype=torch.bool)
    found = average_precision_at_k(x.to(device), event.particle.to(device), everything.to(device)).ap
    exact = _count_precision(x.double(), event.particle)
    error = abs(found - exact)
    most = 1e-3 if device.type == "mps" else 1e-9
    figures: dict[str, float | str] = {"here": found, "from all distances": exact}
    return judge("metric, AP@k", error < most, f"{found:.6f}, off by {error:.1e}", figures)


def _count_precision(x: Tensor, particle: Tensor) -> float:
    """AP@k from the matrix of all distances."""
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(math.inf)
    order = distance.argsort(1)
    k = (torch.bincount(particle)[particle] - 1)[:, None]
    is_counted = torch.arange(len(x)) < k
    is_found = (particle[order] == particle[:, None]) & is_counted
    has_partner = k[:, 0] > 0
    return float((is_found.sum(1)[has_partner].double() / k[has_partner, 0]).mean())


def _check_model(device: torch.device) -> Verdict:
    event = draw_event(2000)
    torch.manual_seed(0)
    model = HEPT(15, 6, 12).eval()
    inputs = event.features, event.coords, event.offsets
    with torch.inference_mode():
        found = model.to(device)(*(each.to(device) for each in inputs)).cpu()
        torch.manual_seed(0)
        exact = (
            HEPT(15, 6, 12, backend="plain")
            .eval()
            .double()(event.features.double(), event.coords.double(), event.offsets)
        )
    error = (found - exact).norm(dim=1) / exact.norm(dim=1).mean()
    moved, typical = float((error > 1e-2).double().mean()), float(error.median())
    is_right = moved < MOST_MOVED and typical < MOST_BACKWARD
    text = f"error {typical:.1e} of a typical point, {100 * moved:.2g} % of points off by more than 1 %"
    return judge("whole model", is_right, text, {"median error": typical, "moved": moved})


def _draw_operands() -> tuple[Operands, Layout]:
    """Queries, keys, values and coordinates of the published sizes, in any order within clouds."""
    generator = torch.Generator().manual_seed(0)
    offsets = torch.tensor([0, *CLOUDS]).cumsum(0)
    n, n_heads, n_tables = int(offsets[-1]), 8, 3
    clouds = Clouds.from_offsets(offsets, n)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    orders = [
        (torch.rand(n_tables, n_heads, n, generator=generator) + clouds.index).argsort(-1) for _ in range(2)
    ]
    rows = 0.3 * draw(n_heads, n, 24), 0.3 * draw(n_heads, n, 24), draw(n_heads, n, 24)
    operands = Operands(*rows, 0.5 * draw(n_heads, 8, n))
    return operands, Layout(orders[0], orders[1], cut_into_blocks(clouds, 100))


def _tensors(operands: Operands) -> Sequence[Tensor]:
    given = operands.query, operands.key, operands.value, operands.coords
    return [each for each in given if each is not None]


def _move(operands: Operands, device: torch.device) -> Operands:
    return Operands(*(each.to(device) for each in _tensors(operands)))


def _move_layout(layout: Layout, device: torch.device) -> Layout:
    blocks = layout.blocks
    moved = Blocks(blocks.position.to(device), blocks.is_filled.to(device), blocks.slot.to(device))
    return Layout(layout.query_order.to(device), layout.key_order.to(device), moved)


def _differentiate(attend: BlockAttention, operands: Operands, layout: Layout) -> list[Tensor]:
    """Output, and gradients of all inputs, on the host."""
    inputs = [each.detach().clone().requires_grad_() for each in _tensors(operands)]
    out = attend(Operands(*inputs), layout)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view(out.shape)
    grads = torch.autograd.grad((out * weight).sum(), inputs)
    return [each.detach().cpu() for each in (out, *grads)]


def _compare(found: Tensor, exact: Tensor) -> float:
    """Relative error; infinite if a value is not finite."""
    error = float((found.cpu().double() - exact).norm() / exact.norm())
    return error if math.isfinite(error) else math.inf


def _judge_errors(name: str, forward: float, backward: float) -> Verdict:
    text = f"error against float64: forward {forward:.1e}, backward {backward:.1e}"
    is_right = forward < MOST_FORWARD and backward < MOST_BACKWARD
    return judge(name, is_right, text, {"forward": forward, "backward": backward})
