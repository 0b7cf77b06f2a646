"""`hept-train compare`: every system of the paper on one dataset, with the paper's tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hepdata.errors import InputError

from .frame import json_option, write_json
from .progress import ProgressBar
from .tables import console, print_table

if TYPE_CHECKING:
    from hepdata.loader.dataset import Dataset

# Presets by task, each for clouds below so many points.
_PRESETS = {
    "tracking": ((3_000, "tracking-demo"), (20_000, "tracking-6k"), (math.inf, "tracking-60k")),
    "pileup": ((3_000, "pileup-demo"), (math.inf, "pileup-10k")),
}


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
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting of the preset."
)
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
@json_option
def command(
    dataset: str,
    models: str,
    tables: str,
    budget: str | None,
    preset: str | None,
    overrides: tuple[str, ...],
    out: Path,
    repeats: int,
    max_points: int,
    max_seconds: float,
    json_path: Path | None,
) -> int:
    """Compare systems on DATASET: train or load each, then print and save the paper's tables.

    \b
    Examples:
      hept-train compare tracking --budget 5min --out compare/tracking
      hept-train compare pileup --models hept,gcn,smyrf --tables accuracy,time --budget 2epochs
    """
    from hepdata.loader.dataset import open_dataset
    from hept.compare.claims import tabulate_claims
    from hept.compare.plan import choose_models, choose_tables, parse_budget
    from hept.compare.report import format_cell, write_report
    from hept.compare.run import ComparisonSettings, run_comparison
    from hept.compare.scaling import ScalingLimits
    from hept.compare.tables import make_tables
    from hept.config import load_config

    settings = ComparisonSettings(
        choose_models(models),
        choose_tables(tables),
        parse_budget(budget),
        repeats,
        ScalingLimits(max_points=max_points, max_seconds=max_seconds),
    )
    opened = open_dataset(dataset)
    base = load_config(preset or _choose_preset(opened), list(overrides))
    with ProgressBar() as progress:
        findings = run_comparison(
            opened,
            base,
            settings,
            out,
            progress=progress,
            announce=lambda line: console.print(line, highlight=False),
        )
    claims = tabulate_claims(findings)
    made = [*make_tables(findings), *([claims] if claims.rows else [])]
    for table in made:
        rows = [[format_cell(cell) for cell in row] for row in table.rows]
        print_table(table.title, table.header, rows)
        for note in table.notes:
            console.print(note, highlight=False)
    paths = write_report(findings, made, out)
    console.print(f"Written: {paths[0]} and {len(paths) - 1} CSV and PNG files beside it", highlight=False)
    write_json(json_path, {table.name: {"header": table.header, "rows": table.rows} for table in made})
    if findings.is_stopped:
        console.print("Stopped. The same command goes on.", highlight=False)
        return 130
    return 1 if findings.failed else 0


def _choose_preset(dataset: Dataset) -> str:
    """The published preset of the nearest size; the small one for clouds much smaller than the paper's."""
    counts = dataset.manifest.statistics()
    points = counts.n_points / max(counts.n_clouds, 1)
    for most, preset in _PRESETS.get(dataset.task, ()):
        if points < most:
            return preset
    raise InputError(
        dataset.place.location,
        found=f"a {dataset.task} dataset",
        expected=f"a preset for it: there are some for {', '.join(_PRESETS)}",
        remedy="name one with --preset, for instance a .yaml file of your own",
    )
