"""Memory by the formula of `fit --plan`, and counted: `python -m benchmarks.memory_counts LIBRARY`.

Prints JSON: bytes a point that the forward pass keeps, counted and by formula, and the peak of a step.
"""

from __future__ import annotations

import json
import sys

from benchmarks.stand_in import end_process, load_stand_in

if __name__ == "__main__":
    load_stand_in(sys.argv[1])

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.traffic import TrafficCounter
from hepdata.schema import ModelInput
from hept.devices import triton_support
from hept.model.build import build_network
from hept.model.network import checkpoint_activations
from hept.settings.train_config import ModelConfig
from hept.training.memory_plan import FLOAT, count_kept

N_POINTS = 60_000
MODELS: dict[str, dict[str, object]] = {
    "published": {},
    "two layers": {"n_layers": 2},
    "four heads": {"n_heads": 4},
    "narrow": {"hidden_dim": 12, "dropout": 0.0},
    "five tables": {"n_tables": 5},
    "wide feed-forward": {"ff_dim": 96},
}


def count_all() -> dict[str, dict[str, float]]:
    """Bytes a point by model, with and without activations that are kept."""
    triton_support.has_triton = lambda: True
    found = {name: _count(ModelConfig(**changes)) for name, changes in MODELS.items()}  # type: ignore[arg-type]
    return found | {"recomputed": _count(ModelConfig(), is_sparing=True)}


def _count(model: ModelConfig, *, is_sparing: bool = False) -> dict[str, float]:
    features, coords = ([ModelInput(f"{kind}{i}") for i in range(n)] for kind, n in (("f", 15), ("c", 6)))
    with FakeTensorMode(), torch.device("cuda"):
        network = build_network(model, features, coords, is_embedding=True).train()
        if is_sparing:
            checkpoint_activations(network)
        inputs = torch.empty(N_POINTS, 15), torch.empty(N_POINTS, 6), torch.empty(2, dtype=torch.int64)
        with TrafficCounter() as counter:
            out = network(*inputs)
            kept = counter.live
            out.square().mean().backward()
    by_formula = count_kept(model, network, is_sparing=is_sparing)
    return {
        "kept": kept / N_POINTS,
        "peak": counter.peak / N_POINTS,
        "formula": by_formula,
        "formula, peak": by_formula + FLOAT * model.head_width,
    }


if __name__ == "__main__":
    print(json.dumps(count_all()))
    end_process()
