"""`hept-train compare-runs`: trained runs side by side."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Any

import click

import hept

from .command_line import model_options, write_json
from .printing import console, print_table


@click.command("compare-runs")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="compare-runs.html",
    show_default=True,
    help="The HTML page.",
    metavar="FILE",
)
@click.option("--dataset", help="Evaluate all runs on this dataset.  [default: each on its own]")
@click.option("--split", help="Split to evaluate on.  [default: test, or valid where that is empty]")
@model_options
def command(runs: tuple[Path, ...], out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Compare RUNS: settings that differ, metrics with errors, curves; as tables and as one page.

    \b
    Example:
      hept-train compare-runs runs/a runs/b --out compared.html
    """
    found = hept.compare_runs(runs, out, **arguments, progress=True)
    # Imported after all checks: torch takes seconds.
    from hept.report.compare_runs import format_estimate
    from hept.report.definitions import name_metric

    if found.settings:
        rows = [
            (name, *(shorten(str(value), 60, placeholder=" …") for value in values))
            for name, values in found.settings.items()
        ]
        print_table("Settings that differ", ("setting", *found.names), rows)
    rows = [(name_metric(name), *map(format_estimate, values)) for name, values in found.metrics.items()]
    print_table("Mean over clouds ± standard error", ("metric", *found.names), rows)
    write_json(json_path, vars(found))
    console.print(f"Page: {found.page}", highlight=False, soft_wrap=True)
