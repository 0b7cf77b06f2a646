"""Parameters and operations of a model: the function behind `hept-train describe`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hepdata.errors import InputError, nearest_name
from hepdata.inputs import choose_inputs
from hepdata.schema import SCHEMAS
from hept.settings.load import Settings, list_presets, load_config
from hept.settings.train_config import TrainConfig

if TYPE_CHECKING:
    from torch import nn

    from hept.model.flops import Cost
    from hept.model.trained import ModelLike

# Approximate points per cloud of the paper's datasets.
TYPICAL_POINTS = {"tracking": (6_000, 60_000), "pileup": (10_000,)}


@dataclass(frozen=True)
class ModelDescription:
    """Size and cost of a model.

    Attributes:
        config: Its settings.
        parameters: Numbers in the weights.
        trainable: Numbers in the weights that training changes.
        n_features: Number of input features.
        coords_dim: Number of input coordinates.
        costs: Operations of a forward pass, for each number of points.
    """

    config: TrainConfig
    parameters: int
    trainable: int
    n_features: int
    coords_dim: int
    costs: tuple[Cost, ...]


def describe(model: ModelLike, *, points: Sequence[int] = (), settings: Settings = ()) -> ModelDescription:
    """Count the parameters of a model and the operations (multiply-adds) of a forward pass.

    Args:
        model: A preset, a configuration file, a run, a weights file, or a loaded model.
        points: Numbers of points per cloud; by default those of the paper's datasets.
        settings: Changes to a preset by dotted name.

    Raises:
        InputError: Unknown name, or invalid settings.
    """
    config = _find_config(model, settings)
    # Imported after all checks: torch takes seconds.
    from hept.model.flops import count_operations, count_parameters
    from hept.model.weights import load_model

    if config is not None:
        network, n_features, coords_dim = _build(config)
    else:
        trained = load_model(model)
        network, config = trained.network, trained.config
        n_features, coords_dim = len(trained.features), len(trained.coords)
    sizes = points or TYPICAL_POINTS.get(config.task, (10_000,))
    costs = tuple(count_operations(network, n, n_features, coords_dim) for n in sizes)
    return ModelDescription(config, *count_parameters(network), n_features, coords_dim, costs)


def _find_config(model: ModelLike, settings: Settings) -> TrainConfig | None:
    """The configuration of a preset or file, or None for weights; torch is not imported."""
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else model.source
    if name in list_presets() or Path(name).suffix in (".yaml", ".yml"):
        return load_config(name, settings)
    if settings:
        raise InputError(
            "`settings`",
            found=f"changes for {name}",
            expected="a preset or a configuration file",
            remedy="leave them out: weights keep their settings",
        )
    if not Path(name).exists():
        raise InputError(
            name,
            found="no preset or file of this name",
            expected="a preset, a run folder, a weights file or a .yaml file",
            remedy=nearest_name(name, list_presets()),
        )
    return None


def _build(config: TrainConfig) -> tuple[nn.Module, int, int]:
    """The network of a configuration for a dataset with all columns of its task."""
    from hept.model.build import build_network
    from hept.objectives.objective import find_objective

    schema = SCHEMAS.get(config.task)
    if schema is None or schema.target is None:
        raise InputError(
            f"task {config.task!r}",
            found="a task whose columns are only defined by its datasets",
            expected=f"one of {', '.join(SCHEMAS)}",
            remedy="describe a run that was trained on such a dataset",
        )
    features = choose_inputs(schema, schema.features, config.data.features, where="data.features")
    coords = choose_inputs(schema, schema.coordinates, config.data.coords, where="data.coords")
    is_embedding = find_objective(schema.target.objective).is_embedding
    return (
        build_network(config.model, features, coords, is_embedding=is_embedding),
        len(features),
        len(coords),
    )
