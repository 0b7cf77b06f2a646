"""`hept-train eval`: how good a trained model is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hept
from hept.commands import open_inputs

from .command_line import model_options, write_json
from .printing import print_table


@click.command("eval")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", default="test", show_default=True, help="Split to evaluate on.")
@model_options
def command(model: Path, dataset: str | None, split: str, json_path: Path | None, **arguments: Any) -> None:
    """Evaluate MODEL (a run folder, a weights file or the published checkpoint) on DATASET.

    Without DATASET, a run folder is evaluated on the dataset that it was trained on.

    \b
    Examples:
      hept-train eval runs/a
      hept-train eval runs/a tracking --split valid --json metrics.json
      hept-train eval runs/a --device cpu
    """
    opened = open_inputs(model, dataset, split)
    metrics = hept.evaluate(model, opened, split, **arguments, progress=True)
    # Imported after all checks: torch takes seconds.
    from hept.metrics.cleaning import WEIGHTS, tabulate_weights
    from hept.report.definitions import name_metric

    side_by_side = tabulate_weights(metrics)
    shown = {f"{name}_{weight}" for name, *_ in side_by_side for weight in WEIGHTS}
    rows = [(name_metric(name), value) for name, value in metrics.items() if name not in shown]
    print_table(f"{model} on {opened.root.location}, {split}", ("metric", "value"), rows)
    if side_by_side:
        print_table("Neutral particles weighted by", ("", *WEIGHTS), side_by_side)
    write_json(json_path, metrics)
