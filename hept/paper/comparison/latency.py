"""Breakdown of HEPT's time on one cloud: attention, the rest of the network, and loss with gradients."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hepdata.loader.batch import Batch
from hept.attention.definition import HEPTAttention
from hept.devices.choice import Precision
from hept.devices.clock import read_clock
from hept.devices.precision import mixed_precision
from hept.model.network import Network
from hept.objectives.objective import Objective
from hept.paper.comparison.step_cost import draw_network
from hept.paper.comparison.store import Result
from hept.runs.training_data import TrainingData
from hept.settings.train_config import TrainConfig


def measure_latency(config: TrainConfig, data: TrainingData, batch: Batch, repeats: int) -> Result:
    """Milliseconds of each part, medians over repeats after one warm-up."""
    network, objective = draw_network(config, data)
    network.to(batch.features.device)
    runs = [_one_run(network, objective, batch, config.precision) for _ in range(repeats + 1)][1:]
    return {name: 1000 * statistics.median(run[name] for run in runs) for name in runs[0]}


def _one_run(network: Network, objective: Objective, batch: Batch, precision: Precision) -> Result:
    device = batch.features.device
    network.eval()
    with (
        torch.inference_mode(),
        mixed_precision(device, precision),
        _time_attention(network, device) as attention,
    ):
        begun = read_clock(device)
        network(batch.features, batch.coords, batch.offsets)
        total = read_clock(device) - begun
    result = {"test_attention": attention[0], "test_other": total - attention[0]}
    network.train()
    network.zero_grad(set_to_none=True)
    with mixed_precision(device, precision), _time_attention(network, device) as attention:
        begun = read_clock(device)
        out = network(batch.features, batch.coords, batch.offsets)
        forward = read_clock(device) - begun
    loss = objective.loss(out, batch, normaliser=None, generator=torch.Generator().manual_seed(0))
    loss.backward()  # type: ignore[no-untyped-call]
    total = read_clock(device) - begun
    return result | {
        "train_loss_backward": total - forward,
        "train_attention": attention[0],
        "train_other": forward - attention[0],
    }


@contextmanager
def _time_attention(network: Network, device: torch.device) -> Iterator[list[float]]:
    """A list whose one number grows by the seconds spent in attention."""
    spent, begun = [0.0], [0.0]

    def start(*_: object) -> None:
        begun[0] = read_clock(device)

    def stop(*_: object) -> None:
        spent[0] += read_clock(device) - begun[0]

    handles = []
    for module in network.modules():
        if isinstance(module, HEPTAttention):
            handles += [module.register_forward_pre_hook(start), module.register_forward_hook(stop)]
    try:
        yield spent
    finally:
        for handle in handles:
            handle.remove()
