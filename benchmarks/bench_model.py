"""The model against the authors' steps at 6,000 and 60,000 points, and its cost from 2¹⁰ to 2¹⁸ points.

With the published weights if they are next to the checkout, else with random weights of the same shapes. On a
processor with AVX-512, the speed at 60,000 points is measured with AVX2 too, in a process of its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.memory import added_bytes
from benchmarks.ratio import Ratio, seconds
from benchmarks.turns import time_in_turns
from hepdata import open_dataset
from hepdata.pipeline.build import SplitRule, build_dataset
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig, open_tracking
from hepdata.simulate.trackml_writer import simulate_files
from hept import HEPT, load_published
from hept.attention.kernels import native
from hept.paper import literal_model

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT.parent / "shared" / "data" / "checkpoint" / "tracking-60k-model.pt"
PICTURE = ROOT / "bench-results" / "model_scaling.png"
CLOUDS = PICTURE.parent / "clouds"
SIZES = (6_000, 60_000)
# Hits of an event from which smaller clouds are cut.
DENSE = 60_000
# Points of a first, small pass that triggers torch's lazy loading.
WARM_UP = 200
PASSES = {False: "forward", True: "forward + backward"}
SCALING = tuple(2**i for i in range(10, 19))
# Both sides as on a processor without AVX-512: torch reads these when it is imported.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
AVX2_LANES = 8


def run() -> list[Ratio]:
    """Speed and memory of both sides, then the slopes of ours."""
    ratios = [ratio for n in SIZES for ratio in (*compare_speed(n), *compare_memory(n))]
    if native.count_lanes() > AVX2_LANES:
        command = [sys.executable, "-m", "benchmarks.bench_model"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | AVX2)
        ratios += [Ratio(**entry) for entry in json.loads(done.stdout)]
    return ratios + scale()


def compare_speed(n: int) -> list[Ratio]:
    """Forward pass and training step at `n` points: medians over rounds in which both sides take turns."""
    ratios = []
    rounds = 5 if n < 20_000 else 2
    instructions = torch.backends.cpu.get_cpu_capability()
    goals = (6.0, 4.0) if n < 20_000 else (9.5, 6.0)
    for (trains, name), goal in zip(PASSES.items(), goals, strict=True):
        works = {"theirs": prepare_published(n, trains), "ours": prepare_ours(n, trains)}
        times = time_in_turns(works, rounds=rounds)
        theirs, ours = times["theirs"], times["ours"]
        title = f"model {name}, {n:,} points, speed, {instructions}"
        detail = f"{theirs.wall:.3g} s / {ours.wall:.3g} s; processor {theirs.cpu:.3g} s / {ours.cpu:.3g} s"
        ratios.append(Ratio(title, theirs.wall / ours.wall, goal, "at least", detail))
    return ratios


def compare_memory(n: int) -> list[Ratio]:
    """Memory of a forward pass and of a training step at `n` points."""
    ratios = []
    for trains, name in PASSES.items():
        theirs_bytes = added_bytes(partial(prepare_published, n, trains))
        ours_bytes = added_bytes(partial(prepare_ours, n, trains))
        detail = f"{ours_bytes / 1e9:.3g} GB / {theirs_bytes / 1e9:.3g} GB"
        share = ours_bytes / theirs_bytes
        ratios.append(Ratio(f"model {name}, {n:,} points, memory", share, 1 / 3, "at most", detail))
    return ratios


def scale() -> list[Ratio]:
    """Growth of time and memory of a forward pass with the cloud, and memory of training on the largest."""
    times = [seconds(prepare_ours(n, False), repeats=3 if n < 2**16 else 1) for n in SCALING]
    memory = [added_bytes(partial(prepare_ours, n, False)) / 1e9 for n in SCALING]
    draw_scaling(times, memory)
    training = added_bytes(partial(prepare_ours, SCALING[-1], True)) / 1e9
    span = f"2^{SCALING[0].bit_length() - 1} … 2^{SCALING[-1].bit_length() - 1} points"
    return [
        Ratio(f"model time, slope over {span}", slope(times), 1.1, "at most", f"up to {times[-1]:.3g} s"),
        Ratio(
            f"model memory, slope over {span}", slope(memory), 1.1, "at most", f"up to {memory[-1]:.3g} GB"
        ),
        Ratio("model training step at 2^18 points, GB", training, 8.0, "at most", "published weights"),
    ]


def slope(values: list[float]) -> float:
    """Exponent of the power law through measurements at the sizes of SCALING."""
    x = [math.log(n) for n in SCALING]
    y = [math.log(max(value, 1e-9)) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return products / sum((a - mean_x) ** 2 for a in x)


def prepare_ours(n: int, trains: bool) -> Callable[[], object]:
    """A forward pass of `HEPT`, or a training step without loss function."""
    model = make_model()

    def step(features: Tensor, coords: Tensor) -> None:
        with torch.set_grad_enabled(trains):
            out = model(features, coords, torch.tensor([0, len(features)]))
        if trains:
            out.square().mean().backward()
            model.zero_grad()

    step(*draw_cloud(WARM_UP))
    return partial(step, *draw_cloud(n))


def prepare_published(n: int, trains: bool) -> Callable[[], object]:
    """The same for the authors' steps."""
    state = {
        name: tensor.requires_grad_(trains and name != "regions") for name, tensor in make_state().items()
    }

    def step(features: Tensor, coords: Tensor) -> None:
        with torch.set_grad_enabled(trains):
            out = literal_model.forward(state, features, coords)
        if trains:
            out.square().mean().backward()
            for tensor in state.values():
                tensor.grad = None

    step(*draw_cloud(WARM_UP))
    return partial(step, *draw_cloud(n))


def make_model() -> HEPT:
    """The published model, in evaluation mode."""
    if WEIGHTS.exists():
        return load_published(WEIGHTS)
    torch.manual_seed(0)
    return HEPT(15, 6, 12).eval()


def make_state() -> dict[str, Tensor]:
    """The published weights under the authors' names."""
    if WEIGHTS.exists():
        return dict(torch.load(WEIGHTS, weights_only=True))
    return literal_model.draw_state()


def draw_cloud(n: int) -> tuple[Tensor, Tensor]:
    """Neighbouring hits of a simulated event: features (n, 15) and coordinates (n, 6)."""
    path = CLOUDS / f"{n}.pt"
    if not path.exists():
        # In another process, so that the measured code cannot reuse its memory.
        process = multiprocessing.get_context("spawn").Process(target=save_cloud, args=(n, path))
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError(
                f"no cloud of {n} points: its simulation ended with exit code {process.exitcode}"
            )
    features, coords = torch.load(path, weights_only=True)
    return features, coords


def save_cloud(n: int, path: Path) -> None:
    """Simulate and build a dense event as a user would, and save `n` neighbouring points."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        raw, out = Path(folder) / "raw", Path(folder) / "built"
        simulate_files(raw, n_events=1, hits_per_event=max(DENSE, n), seed=1)
        config = TrackingConfig(pairs=PairChoice("none"))
        build_dataset(open_tracking(raw, config), out, split=SplitRule(ranges=(("train", 0, 10**9),)))
        batch = next(iter(open_dataset(out)["train"].loader(batch_size=1)))
        # Points are ordered along a space-filling curve: the first ones are neighbours.
        torch.save((batch.features[:n].clone(), batch.coords[:n].clone()), path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)


def draw_scaling(times: list[float], memory: list[float]) -> None:
    """Both curves on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for axis, values, label in zip(
        axes, (times, memory), ("time of a forward pass [s]", "memory [GB]"), strict=True
    ):
        axis.loglog(SCALING, values, "o-", base=2, label=f"slope {slope(values):.2f}")
        linear = [values[-1] * n / SCALING[-1] for n in SCALING]
        axis.loglog(SCALING, linear, ":", color="0.5", label="linear")
        axis.set(xlabel="points", ylabel=label)
        axis.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    native.limit_lanes(AVX2_LANES)
    print(json.dumps([dataclasses.asdict(ratio) for ratio in compare_speed(SIZES[-1])]))
