"""An exported model in onnxruntime against the plain torch path at 6,000 and 60,000 points.

With the published weights if they are next to the checkout, else with random weights of the same shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.memory import added_bytes
from benchmarks.ratio import Ratio

# Torch is imported by functions: the process that measures onnxruntime's memory runs without it.
if TYPE_CHECKING:
    from hept import TrainedModel

SIZES = (6_000, 60_000)
# Slowdown and memory that a reconstruction program accepts.
SLOWER, GIGABYTES = 2.0, 2.0


def run() -> list[Ratio]:
    """Time of both runtimes in turns, and memory of onnxruntime, which runs without torch."""
    from hept import export_model

    with TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        export_model(make_trained(), model, inputs="prepared", quick=True)
        return [ratio for n in SIZES for ratio in compare(model, n)]


def compare(model: Path, n: int) -> list[Ratio]:
    """Ratios at `n` points: time against torch, and memory."""
    import torch

    from benchmarks.bench_model import draw_cloud
    from benchmarks.turns import time_in_turns

    inputs = model.with_name(f"{n}.npz")
    features, coords = draw_cloud(n)
    np.savez(inputs, features=features.numpy(), coords=coords.numpy(), offsets=np.array([0, len(features)]))
    threads = torch.get_num_threads()
    works = {"onnx": prepare_onnx(model, inputs, threads), "torch": prepare_torch(n)}
    times = time_in_turns(works, rounds=9 if n < 20_000 else 3)
    ratio = times["onnx"].wall / times["torch"].wall
    detail = f"{times['onnx'].wall:.3g} s / {times['torch'].wall:.3g} s, {threads} threads"
    added = added_bytes(partial(prepare_session, model, inputs, threads)) / 1e9
    return [
        Ratio(f"onnxruntime against plain torch, {n:,} points, time", ratio, SLOWER, "at most", detail),
        Ratio(
            f"onnxruntime, {n:,} points, GB", added, GIGABYTES, "at most", "the model's session and one cloud"
        ),
    ]


def prepare_onnx(model: Path, inputs: Path, threads: int) -> Callable[[], object]:
    """A cloud through a session that is open."""
    from hept.export.alone import run_onnx

    session, given = run_onnx(str(model), threads), dict(np.load(inputs))
    return partial(session, given)


def prepare_session(model: Path, inputs: Path, threads: int) -> Callable[[], object]:
    """Opening a session, and a cloud through it."""
    import onnxruntime  # noqa: F401  # its libraries are no part of the measurement

    return lambda: prepare_onnx(model, inputs, threads)()


def prepare_torch(n: int) -> Callable[[], object]:
    """The same cloud through torch without compiled kernels."""
    import torch

    from benchmarks.bench_model import draw_cloud
    from hept.attention.definition import HEPTAttention
    from hept.attention.kernels.plain import attend_plain

    network = copy.deepcopy(make_trained().network)
    for module in network.modules():
        if isinstance(module, HEPTAttention):
            module.attend = attend_plain
    features, coords = draw_cloud(n)
    points = (features, coords, torch.tensor([0, len(features)]))

    def forward() -> object:
        with torch.no_grad():
            return network(*points)

    return forward


def make_trained() -> TrainedModel:
    """The published model."""
    import torch

    from benchmarks.bench_model import WEIGHTS
    from hepdata.schema import TRACKING
    from hept import TrainedModel, load_model
    from hept.model.build import build_network
    from hept.settings.load import load_config

    if WEIGHTS.exists():
        return load_model(WEIGHTS)
    torch.manual_seed(0)
    config = load_config("tracking-60k", [])
    inputs = (TRACKING.features, TRACKING.coordinates)
    network = build_network(config.model, *inputs, is_embedding=True).eval()
    return TrainedModel(network, "tracking", "pairs", *inputs, config, "random weights")
