"""`python -m benchmarks.compiled_step`: a training step on a CPU with and without `torch.compile`.

Three ways, timed in turns on one batch: nothing compiled; the network compiled, which is the setting
`compile`; and the whole step compiled: network, loss, clipping and Adam. Prints the time of a step and that
of the first one, which compiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lightning_fabric import Fabric

import hepdata
from benchmarks.turns import time_in_turns
from hepdata.loader.batch import Batch
from hept.model.build import build_network
from hept.objectives.objective import make_objective
from hept.runs.training_data import TrainingData, open_training_data
from hept.settings.load import load_config
from hept.settings.train_config import TrainConfig
from hept.training.optimizers import make_optimizer
from hept.training.step import OptimiserStep
from hept_cli.printing import print_table

# Hits of an event, steps that are timed.
CASES = {"tracking-laptop": (6_000, 9), "tracking-60k": (60_000, 3)}
WAYS = "nothing compiled", "network compiled", "whole step compiled"


def main() -> None:
    """Print the table."""
    rows = []
    with TemporaryDirectory() as name:
        for preset, (n_hits, rounds) in CASES.items():
            raw, built = Path(name) / f"raw-{n_hits}", Path(name) / f"built-{n_hits}"
            hepdata.simulate_tracking(raw, events=3, hits_per_event=n_hits)
            config = load_config(preset, ["optimizer.clip_norm=1"])
            data = open_training_data(config, hepdata.build_tracking(raw, built, split="34/33/33"))
            batch = next(iter(data.train))
            works, first = {}, {}
            for way in WAYS:
                works[way] = _prepare(config, data, batch, way)
                begun = time.perf_counter()
                works[way]()
                first[way] = time.perf_counter() - begun
            times = time_in_turns(works, rounds=rounds)
            plain = times[WAYS[0]].wall
            rows += [
                (preset, batch.n_points, way, f"{each.wall:.3g} s", f"{first[way]:.3g} s", each.wall / plain)
                for way, each in times.items()
            ]
    titles = "preset", "points", "way", "step", "first step", "of the time"
    print_table(f"torch.compile on a CPU, {torch.get_num_threads()} threads", titles, rows)


def _prepare(config: TrainConfig, data: TrainingData, batch: Batch, way: str) -> Callable[[], object]:
    """One optimiser step, always from the same seed."""
    torch.manual_seed(config.seed)
    objective = make_objective(data.target, config.loss, only_metric=True)
    network = build_network(config.model, data.features, data.coords, is_embedding=objective.is_embedding)
    network.train()
    model: Any = torch.compile(network, dynamic=True) if way == WAYS[1] else network
    fabric, optimizer = Fabric(accelerator="cpu", devices=1), make_optimizer(network, config.optimizer)
    model = fabric.setup_module(model)
    step: Any = OptimiserStep(
        fabric,
        model,
        network,
        optimizer,
        objective,
        torch.device("cpu"),
        clip_norm=config.optimizer.clip_norm,
    )
    if way == WAYS[2]:
        step = torch.compile(step.__call__, dynamic=True)
    return lambda: step([batch], 1e-4, torch.Generator().manual_seed(0))


if __name__ == "__main__":
    main()
