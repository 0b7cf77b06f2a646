"""Training of our model beside the literal published one: the same events, loss, optimiser and steps.

    python -m benchmarks.parity DATASET --steps 320 --seeds 1 2 3 --out parity.json

Both have the settings of tracking-60k and dropout, and see the same clouds in the same order. The systems:

    literal      the published procedure, `hept/paper/literal_model.py`, with torch's initial weights
    ours         the preset tracking-60k
    ours-flat    the same without periodic φ, as published
    translated   ours, with the initial weights and tables of literal, without periodic φ

It prints AP@0.9 of the validation split every `--every` steps, and at the end mean and standard deviation
over the seeds. 320 steps of literal take half an hour on one core for events of 6,600 hits.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from hepdata.loader.batch import Batch
from hept.attention.definition import draw_buckets
from hept.evaluation.evaluator import score_split
from hept.model.build import build_network
from hept.model.published_weights import build_published
from hept.objectives.objective import make_objective
from hept.paper import literal_model
from hept.runs.training_data import TrainingData, open_training_data
from hept.settings.load import load_config
from hept.settings.train_config import TrainConfig

# Not trained in the published code.
FIXED = ("regions", "alpha")


class Literal(nn.Module):
    """The published forward pass of one cloud, as a module with trainable weights."""

    def __init__(self, state: literal_model.State, *, dropout: float, block_size: int) -> None:
        super().__init__()
        self.names = list(state)
        self.dropout, self.block_size = dropout, block_size
        for name, tensor in state.items():
            is_fixed = name.endswith(FIXED)
            self.register_parameter(name.replace(".", "/"), nn.Parameter(tensor, requires_grad=not is_fixed))

    def forward(self, features: Tensor, coords: Tensor, _offsets: Tensor) -> Tensor:
        """(N, 15) and (N, 6) to (N, 12)."""
        state: literal_model.State = {name: self.get_parameter(name.replace(".", "/")) for name in self.names}
        dropout = self.dropout if self.training else 0.0
        return literal_model.forward(state, features, coords, self.block_size, dropout=dropout)


def draw_initial(seed: int, n_regions: float) -> literal_model.State:
    """The published names and shapes with the initial weights of torch's layers."""
    torch.manual_seed(seed)
    state = literal_model.draw_state()
    n_tables, n_codes, n_heads = state["regions"].shape
    initial: literal_model.State = {"regions": draw_buckets(n_regions, n_codes, n_tables, n_heads)}
    for name, tensor in state.items():
        weight = state.get(f"{name.rpartition('.')[0]}.weight")
        if name == "regions":
            continue
        if name.endswith("alpha") or weight is None:
            initial[name] = torch.randn_like(tensor)
        elif weight.ndim == 1:
            initial[name] = torch.ones_like(tensor) if name.endswith("weight") else torch.zeros_like(tensor)
        else:
            initial[name] = torch.empty_like(tensor).uniform_(-1, 1) / math.sqrt(weight.shape[1])
    return initial


def make_system(name: str, config: TrainConfig, data: TrainingData) -> nn.Module:
    """An untrained network."""
    torch.manual_seed(config.seed)
    model = config.model
    if name in ("ours", "ours-flat"):
        coords = data.coords if name == "ours" else [replace(entry, period=None) for entry in data.coords]
        return build_network(model, data.features, coords, is_embedding=True)
    state = draw_initial(config.seed, model.n_regions)
    if name == "translated":
        return build_published(state, dropout=model.dropout)
    return Literal(state, dropout=model.dropout, block_size=model.block_size)


def train(name: str, dataset: str, config: TrainConfig, steps: int, every: int) -> dict[int, float]:
    """AP@0.9 of the validation split by steps."""
    data = open_training_data(config, dataset)
    network = make_system(name, config, data)
    objective = make_objective(data.target, config.loss, only_metric=True)
    parameters = [each for each in network.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=config.optimizer.lr)
    curve: dict[int, float] = {}
    begun = time.process_time()
    network.train()
    for step, batch in zip(range(1, steps + 1), _batches(data), strict=False):
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + step)
        torch.manual_seed(config.seed * 1_000_003 + step)
        out = network(batch.features, batch.coords, batch.offsets)
        optimizer.zero_grad()
        loss = objective.loss(out, batch, normaliser=None, generator=generator)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % every == 0 or step == steps:
            seconds = (time.process_time() - begun) / step
            curve[step] = score_split(network, data.valid, objective)[objective.metric]
            network.train()
            print(f"{name} seed {config.seed} step {step}: {curve[step]:.4f}, {seconds:.2f} s", flush=True)
    return curve


def _batches(data: TrainingData) -> Iterator[Batch]:
    for epoch in count():
        data.train.set_epoch(epoch)
        yield from data.train


SYSTEMS = ("literal", "ours", "ours-flat", "translated")


def compare(
    dataset: str,
    *,
    systems: tuple[str, ...] = SYSTEMS,
    seeds: tuple[int, ...] = (1, 2, 3),
    steps: int = 320,
    every: int = 32,
    settings: tuple[str, ...] = (),
    keep: Callable[[dict[str, object]], None] = lambda _: None,
) -> dict[str, list[dict[int, float]]]:
    """The curves of every system, one for each seed; `keep` is called after each."""
    curves: dict[str, list[dict[int, float]]] = {name: [] for name in systems}
    for seed in seeds:
        for name in systems:
            config = load_config("tracking-60k", [*settings, f"seed={seed}"])
            curves[name].append(train(name, dataset, config, steps, every))
            keep({"steps": steps, "settings": list(settings), "curves": curves})
    return curves


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("dataset")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(1, 2, 3))
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--every", type=int, default=32)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()

    def keep(found: dict[str, object]) -> None:
        if given.out is not None:
            given.out.write_text(json.dumps(found, indent=2) + "\n")

    curves = compare(
        given.dataset,
        systems=tuple(given.systems),
        seeds=tuple(given.seeds),
        steps=given.steps,
        every=given.every,
        settings=tuple(given.settings),
        keep=keep,
    )
    for name, found in curves.items():
        last = np.array([curve[given.steps] for curve in found])
        spread = last.std(ddof=1) if len(last) > 1 else float("nan")
        print(f"{name}: AP@0.9 {last.mean():.4f} ± {spread:.4f} after {given.steps} steps, {len(last)} seeds")


if __name__ == "__main__":
    main()
