"""Cost against the size of a cloud, from 2¹⁰ to 2¹⁸ random points, in the pileup setting (paper, Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hepdata.schema import PILEUP
from hept.devices.peak_memory import available_gigabytes, peak_gigabytes
from hept.model.build import periods_of
from hept.model.frame import Frame
from hept.paper.comparison.step_cost import median_seconds
from hept.paper.comparison.store import Result
from hept.paper.systems.registry import build_model
from hept.settings.load import load_config

SCALING_MODELS = ("hept", "flatformer", "performer", "smyrf", "gcn")
PILEUP_FRAME = Frame(
    len(PILEUP.features),
    len(PILEUP.coordinates),
    1,
    n_regions=load_config("pileup-10k").model.n_regions,
    head="classification",
    n_classes=PILEUP.features[-1].n_classes,
    class_feature=len(PILEUP.features) - 1,
    periods=periods_of(PILEUP.coordinates),
)
# Expected growth of memory for twice the points: 2 plus a margin, since graphs and buffers grow in steps.
GROWTH = 2.5


@dataclass(frozen=True)
class ScalingLimits:
    """When a curve ends.

    Attributes:
        max_points: Size of the largest cloud.
        max_seconds: The curve ends after a training step that took longer.
        memory_share: The curve ends if the next step would need more than this fraction of the free memory.
    """

    max_points: int = 2**18
    max_seconds: float = 60.0
    memory_share: float = 0.6


def list_sizes(max_points: int) -> list[int]:
    """2¹⁰, 2¹¹, … up to `max_points`."""
    return [2**power for power in range(10, int(math.log2(max(max_points, 1))) + 1)]


def may_go_on(last: Result | None, limits: ScalingLimits) -> bool:
    """Whether a cloud with twice the points of the last one can be tried."""
    if last is None:
        return True
    if last["train_ms"] > 1000 * limits.max_seconds:
        return False
    needed = last["train_gb"] * GROWTH
    return math.isnan(needed) or needed < limits.memory_share * available_gigabytes()


def measure_size(name: str, n_points: int, device: torch.device, seed: int = 0) -> Result:
    """Time and memory of one system on one random cloud."""
    torch.manual_seed(seed)
    model = build_model(name, PILEUP_FRAME).to(device)
    inputs = [tensor.to(device) for tensor in draw_cloud(n_points, seed)]
    repeats = 3 if n_points < 2**14 else 1
    train, infer = _train(model, inputs), _infer(model, inputs)
    return {
        "points": float(n_points),
        "test_ms": 1000 * median_seconds(infer, repeats, device),
        "test_gb": peak_gigabytes(infer, device),
        "train_ms": 1000 * median_seconds(train, repeats, device),
        "train_gb": peak_gigabytes(train, device),
    }


def draw_cloud(n_points: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, coordinates (η, φ, η, φ) and offsets of one cloud of random particles."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n_points, PILEUP_FRAME.n_features, generator=generator)
    features[:, PILEUP_FRAME.class_feature] = torch.randint(0, 7, (n_points,), generator=generator).float()
    eta = 8 * torch.rand(n_points, 1, generator=generator) - 4
    phi = (2 * torch.rand(n_points, 1, generator=generator) - 1) * math.pi
    return features, torch.cat([eta, phi, eta, phi], 1), torch.tensor([0, n_points])


def _train(model: nn.Module, inputs: Sequence[Tensor]) -> Callable[[], object]:
    def run() -> None:
        model.train()
        model.zero_grad(set_to_none=True)
        model(*inputs).mean().backward()

    return run


def _infer(model: nn.Module, inputs: Sequence[Tensor]) -> Callable[[], object]:
    def run() -> object:
        model.eval()
        with torch.inference_mode():
            return model(*inputs)

    return run
