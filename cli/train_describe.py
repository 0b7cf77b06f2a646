"""`hept-train describe`: the size of a model and what it costs to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .frame import json_option, write_json
from .tables import print_table

if TYPE_CHECKING:
    from torch import nn

    from hept.config import TrainConfig

# Points of a cloud of each of the paper's datasets, about.
TYPICAL_POINTS = {"tracking": (6_000, 60_000), "pileup": (10_000,)}


@click.command("describe")
@click.argument("model", metavar="MODEL")
@click.option(
    "--points",
    multiple=True,
    type=click.IntRange(min=1),
    help="Points of a cloud; may be repeated.  [default: those of the paper's datasets]",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting of a preset.")
@json_option
def command(model: str, points: tuple[int, ...], overrides: tuple[str, ...], json_path: Path | None) -> None:
    """Count the parameters of MODEL and the operations of a forward pass.

    MODEL is a preset, a configuration file, a run folder, a weights file or the published checkpoint. An
    operation is one multiply-add, as in the paper's tables.

    \b
    Examples:
      hept-train describe tracking-60k
      hept-train describe runs/a --points 10000 --json cost.json
    """
    _check(model, overrides)
    # Imported after all checks: torch takes seconds.
    from hept.attention.native import count_lanes
    from hept.flops import count_operations, count_parameters

    network, task, n_features, coords_dim = _find(model, overrides)
    total, trainable = count_parameters(network)
    costs = [
        count_operations(network, n, n_features, coords_dim)
        for n in points or TYPICAL_POINTS.get(task, (10_000,))
    ]
    rows: list[tuple[object, ...]] = [
        ("numbers in the weights", total),
        ("of which trainable", trainable),
        ("features", n_features),
        ("coordinates", coords_dim),
    ]
    for cost in costs:
        rows.append((f"GFLOPs at {cost.n_points:,} points", cost.total / 1e9))
        rows += [(f"  {part}", operations / 1e9) for part, operations in cost.parts.items()]
    loops = f"compiled, {count_lanes()} numbers at a time" if count_lanes() else "in torch, not compiled"
    rows.append(("attention on this CPU", loops))
    print_table(model, ("", "value"), rows)
    content = {
        "model": model,
        "parameters": total,
        "trainable": trainable,
        "n_features": n_features,
        "coords_dim": coords_dim,
        "flops": [
            {"n_points": cost.n_points, "gflops": cost.total / 1e9, "parts": cost.parts} for cost in costs
        ],
        "compiled_lanes": count_lanes(),
    }
    write_json(json_path, content)


def _check(model: str, overrides: Sequence[str]) -> None:
    """See that there is something of this name, and that the settings are right; torch is not imported."""
    from hepdata.errors import InputError, nearest_name
    from hept.config import list_presets, load_config

    if _is_config(model):
        load_config(model, overrides)
        return
    if overrides:
        raise InputError(
            "--set",
            found=f"{overrides[0]} for {model}",
            expected="a preset or a configuration file",
            remedy="leave it out: weights keep their settings",
        )
    if not Path(model).exists():
        raise InputError(
            model,
            found="no preset or file of this name",
            expected="a preset, a run folder, a weights file or a .yaml file",
            remedy=nearest_name(model, list_presets()),
        )


def _is_config(model: str) -> bool:
    from hept.config import list_presets

    return model in list_presets() or Path(model).suffix in (".yaml", ".yml")


def _find(model: str, overrides: Sequence[str]) -> tuple[nn.Module, str, int, int]:
    """The network behind a name, its task, and its numbers of features and coordinates."""
    from hept.checkpoint import load_model
    from hept.config import load_config

    if _is_config(model):
        return _build(load_config(model, overrides))
    trained = load_model(model)
    return trained.network, trained.task, len(trained.features), len(trained.coords)


def _build(config: TrainConfig) -> tuple[nn.Module, str, int, int]:
    """The network of a configuration on a dataset with all columns of its task."""
    from hepdata.errors import InputError
    from hepdata.inputs import choose_inputs
    from hepdata.schema import SCHEMAS
    from hept.checkpoint import build_network
    from hept.objective import find_objective

    schema = SCHEMAS.get(config.task)
    if schema is None or schema.target is None:
        raise InputError(
            f"task {config.task!r}",
            found="a task whose columns only its datasets know",
            expected=f"one of {', '.join(SCHEMAS)}",
            remedy="describe a run that was trained on such a dataset",
        )
    features = choose_inputs(schema, schema.features, config.data.features, where="data.features")
    coords = choose_inputs(schema, schema.coordinates, config.data.coords, where="data.coords")
    is_embedding = find_objective(schema.target.objective).is_embedding
    network = build_network(config.model, features, coords, is_embedding=is_embedding)
    return network, config.task, len(features), len(coords)
