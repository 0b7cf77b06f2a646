"""`hept-train tune-clustering`: choose how embeddings become tracks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

import hept
from hept.devices.choice import Precision

from .frame import device_option, json_option, precision_option, threads_option, write_json
from .tables import console, print_table


@click.command("tune-clustering")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", default="valid", show_default=True, help="Split to try on.")
@click.option("--max-clouds", default=20, show_default=True, type=click.IntRange(1), help="Clouds to try on.")
@device_option
@precision_option
@threads_option
@json_option
def command(
    run: Path,
    dataset: str | None,
    split: str,
    max_clouds: int,
    device: str,
    precision: Precision | None,
    threads: int | None,
    json_path: Path | None,
) -> None:
    """Try clusterings of RUN's embeddings, and keep the best in the run folder.

    The best finds the most particles above 0.9 GeV (double majority) on the validation split.

    \b
    Example:
      hept-train tune-clustering runs/a
    """
    trials = hept.tune_clustering(
        run,
        dataset,
        split,
        max_clouds=max_clouds,
        device=device,
        precision=precision,
        threads=threads,
        progress=True,
    )
    rows = [
        (
            f"{t.clustering.method}, {t.clustering.min_points} points",
            t.clustering.eps,
            t.efficiency,
            t.rates["efficiency_lhc"],
            t.rates["efficiency_perfect"],
            t.rates["fake_rate_double_majority"],
        )
        for t in trials[:8]
    ]
    header = ("clustering", "eps", "double majority", "LHC", "perfect", "fake rate")
    print_table("Tracks above 0.9 GeV found by the best clusterings", header, rows)
    write_json(json_path, [asdict(trial) for trial in trials])
    if run.is_dir():
        console.print(f"The first is kept in {run}: eval, predict and report use it.", highlight=False)
