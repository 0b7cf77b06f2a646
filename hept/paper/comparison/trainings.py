"""The plan of a comparison: names and a budget enter, trainings with their settings leave."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hepdata.errors import InputError, nearest_name
from hept.paper.systems.catalog import CATALOG, NAMES, find_system
from hept.settings.train_config import TrainConfig

TABLES = ("accuracy", "time", "memory", "ablation", "sensitivity", "latency", "scaling")
GRID_TABLES = (1, 3, 5)
# Block sizes of table 5, relative to the preset's block size (100 in the paper).
GRID_BLOCKS = (0.5, 1.0, 1.5)
PAPER_MODELS = tuple(
    system.name
    for system in CATALOG
    if system.family in ("transformer", "graph", "kernel", "hept") or system.name == "random"
)
ABLATIONS = (*(system.name for system in CATALOG if system.family == "ablation"), "hept")


@dataclass(frozen=True)
class Budget:
    """Training budget of each model: a number of epochs or minutes; by default that of the preset."""

    epochs: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class PlannedTraining:
    """One training: a key for its folder, and its settings."""

    key: str
    config: TrainConfig

    def fingerprint(self, dataset: str) -> str:
        """A hash of dataset and settings, by which stored results are found."""
        content = json.dumps([dataset, self.key, self.config.model_dump()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def parse_budget(text: str | None) -> Budget:
    """Parse `20epochs`, `90s`, `5min` or `2h`, for each model; None keeps the budget of the preset.

    Raises:
        InputError: Another format, or zero.
    """
    if text is None:
        return Budget()
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(epochs?|s|min|h)\s*", text)
    if found and float(found[1]) > 0:
        value, unit = float(found[1]), found[2]
        if not unit.startswith("epoch"):
            return Budget(minutes=value * {"s": 1 / 60, "min": 1.0, "h": 60.0}[unit])
        if value.is_integer():
            return Budget(epochs=int(value))
    raise InputError(
        "`budget`",
        found=repr(text),
        expected="epochs or time for each model, such as 20epochs, 90s, 5min or 2h",
        remedy="write for instance `budget='5min'`",
    )


def choose_models(text: str) -> tuple[str, ...]:
    """`all` for the rows of the paper's table 1, or names separated by commas.

    Raises:
        InputError: An unknown name.
    """
    if text == "all":
        return PAPER_MODELS
    names = tuple(find_system(name.strip()).name for name in text.split(",") if name.strip())
    if not names:
        raise InputError(
            "`models`", found=repr(text), expected=f"all, or some of {', '.join(NAMES)}", remedy="name one"
        )
    return tuple(dict.fromkeys(names))


def choose_tables(text: str) -> tuple[str, ...]:
    """`all`, or names of tables separated by commas.

    Raises:
        InputError: An unknown name.
    """
    if text == "all":
        return TABLES
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in TABLES:
            raise InputError(
                "`tables`",
                found=repr(name),
                expected=f"all, or some of {', '.join(TABLES)}",
                remedy=nearest_name(name, list(TABLES)),
            )
    return tuple(name for name in TABLES if name in chosen)


def plan_trial(base: TrainConfig, key: str, budget: Budget, **model: str | int) -> PlannedTraining:
    """A training with the settings of `base`, changed by the given settings of the model and the budget."""
    settings = base.model_dump()
    settings["model"] |= model
    if budget.epochs is not None:
        settings["epochs"] = budget.epochs
    if budget.minutes is not None:
        settings["max_minutes"] = budget.minutes
    return PlannedTraining(key, TrainConfig.model_validate(settings))


def plan_accuracy(base: TrainConfig, budget: Budget, models: Sequence[str]) -> list[PlannedTraining]:
    """Plan one training for every model, equal in everything else."""
    return [plan_trial(base, name, budget, kind=name) for name in models]


def plan_sensitivity(base: TrainConfig, budget: Budget) -> dict[tuple[int, int], PlannedTraining]:
    """HEPT with 1, 3 and 5 tables, and block sizes of 0.5, 1 and 1.5 times the preset's."""
    grid = {}
    for n_tables in GRID_TABLES:
        for part in GRID_BLOCKS:
            block = max(2, round(part * base.model.block_size))
            same = n_tables == base.model.n_tables and block == base.model.block_size
            key = "hept" if same else f"hept-{n_tables}x{block}"
            grid[n_tables, block] = plan_trial(
                base, key, budget, kind="hept", n_tables=n_tables, block_size=block
            )
    return grid
