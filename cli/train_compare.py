"""`hept-train compare`: every system of the paper on one dataset, with the paper's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hept.paper.comparison.compare import compare

from .command_line import model_options, write_json
from .printing import console, print_table


@click.command("compare")
@click.argument("dataset")
@click.option(
    "--models",
    default="all",
    show_default=True,
    help="Names separated by commas, as in `hept-train fit --help`; all: the rows of the paper's table 1.",
)
@click.option(
    "--tables",
    default="all",
    show_default=True,
    help="Some of accuracy, time, memory, ablation, sensitivity, latency, scaling.",
)
@click.option(
    "--budget", metavar="LENGTH", help="Of each training: 20epochs, 90s, 5min, 2h [default: preset's]."
)
@click.option("--preset", metavar="NAME", help="Settings that all systems share [default: by cloud size].")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting of the preset.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("compare"),
    show_default=True,
    help="Runs, results and tables; the same command goes on with what is there.",
)
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(min=1), help="Of each timing.")
@click.option(
    "--max-points",
    default=2**18,
    show_default=True,
    type=click.IntRange(min=2**10),
    help="Largest cloud of the scaling figure.",
)
@click.option(
    "--max-seconds",
    default=60.0,
    show_default=True,
    help="A scaling curve ends after a training step that takes longer.",
)
@model_options
def command(dataset: str, out: Path, json_path: Path | None, **arguments: Any) -> int:
    """Compare systems on DATASET: train or load each, then print and save the paper's tables.

    \b
    Examples:
      hept-train compare tracking --budget 5min --out compare/tracking
      hept-train compare pileup --models hept,gcn,smyrf --tables accuracy,time --budget 2epochs
    """
    compared = compare(dataset, out, **arguments, progress=True)
    # Imported after all checks: torch takes seconds.
    from hept.paper.comparison.report import format_cell

    made, findings, paths = compared.tables, compared.findings, compared.files
    for table in made:
        rows = [[format_cell(cell) for cell in row] for row in table.rows]
        print_table(table.title, table.header, rows)
        for note in table.notes:
            console.print(note, highlight=False)
    console.print(
        f"Written: {paths[0]} and {len(paths) - 1} CSV and PNG files in the same folder", highlight=False
    )
    write_json(json_path, {table.name: {"header": table.header, "rows": table.rows} for table in made})
    if findings.is_stopped:
        console.print("Stopped. The same command goes on.", highlight=False)
        return 130
    return 1 if findings.failed else 0
