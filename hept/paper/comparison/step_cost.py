"""Cost of a system on one cloud: time, operations and memory of training and inference.

Times are medians over repeats after one warm-up. Operations are multiply-adds of matrix products, as in the
paper's FLOPs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hepdata.loader.batch import Batch
from hepdata.schema import PLANE
from hept.attention.clouds import Clouds
from hept.devices.choice import Precision
from hept.devices.clock import time_in_turns
from hept.devices.peak_memory import peak_gigabytes
from hept.devices.precision import mixed_precision
from hept.model.build import build_network, periods_of
from hept.model.network import Network, count_parameters
from hept.objectives.objective import Objective, make_objective
from hept.paper.comparison.store import Result
from hept.paper.systems.catalog import find_system
from hept.paper.systems.neighbors import find_neighbors
from hept.runs.training_data import TrainingData
from hept.settings.train_config import TrainConfig


def measure_cost(config: TrainConfig, data: TrainingData, batch: Batch, repeats: int) -> Result:
    """Measure an untrained network on one batch: training does not change the cost."""
    network, objective = draw_network(config, data)
    network.to(batch.features.device)
    device, precision = batch.features.device, config.precision
    train = training_step(network, objective, batch, precision)
    infer = inference(network, batch, precision)
    counter = FlopCounterMode(display=False)
    network.eval()
    with counter:
        infer()
    result = {
        "points": float(len(batch.features)),
        "parameters": float(count_parameters(network)),
        "gmacs": counter.get_total_flops() / 2e9,
        "test_ms": 1000 * median_seconds(infer, repeats, device),
        "test_gb": peak_gigabytes(infer, device),
        "train_ms": 1000 * median_seconds(train, repeats, device),
        "train_gb": peak_gigabytes(train, device),
    }
    if find_system(config.model.kind).has_static_graph:
        build = graph_building(config, data, batch)
        result["graph_ms"] = 1000 * median_seconds(build, repeats, device)
    return result


def draw_network(config: TrainConfig, data: TrainingData) -> tuple[Network, Objective]:
    """An untrained network for a dataset, and its objective."""
    torch.manual_seed(config.seed)
    objective = make_objective(data.target, config.loss, only_metric=True)
    network = build_network(config.model, data.features, data.coords, is_embedding=objective.is_embedding)
    return network, objective


def training_step(
    network: Network, objective: Objective, batch: Batch, precision: Precision
) -> Callable[[], object]:
    """Forward pass, loss and gradients of one batch."""

    def step() -> None:
        network.train()
        network.zero_grad(set_to_none=True)
        with mixed_precision(batch.features.device, precision):
            out = network(batch.features, batch.coords, batch.offsets)
        generator = torch.Generator().manual_seed(0)
        objective.loss(out, batch, normaliser=None, generator=generator).backward()  # type: ignore[no-untyped-call]

    return step


def inference(network: nn.Module, batch: Batch, precision: Precision) -> Callable[[], Tensor]:
    """The forward pass of one batch, without gradients."""

    def run() -> Tensor:
        network.eval()
        with torch.inference_mode(), mixed_precision(batch.features.device, precision):
            out: Tensor = network(batch.features, batch.coords, batch.offsets)
        return out

    return run


def graph_building(config: TrainConfig, data: TrainingData, batch: Batch) -> Callable[[], object]:
    """The search of nearest neighbours in (η, φ) that the system needs before it runs."""
    periods = periods_of(data.coords[PLANE])

    def run() -> object:
        clouds = Clouds.from_offsets(batch.offsets, len(batch.features))
        return find_neighbors(batch.coords[:, PLANE], clouds, config.model.n_neighbors, periods=periods)

    return run


def median_seconds(work: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Median wall time of `work` over repeats, after one that warms caches."""
    return time_in_turns({"work": work}, device, repeats=repeats)["work"]
