"""`hept-data plot`: a dataset in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import plot

from .command_line import json_option, write_json


@click.command("plot", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder for the PNG files.", metavar="DIR"
)
@click.option("--split", default="train", show_default=True, help="Which split to draw.")
@click.option("--events", type=click.IntRange(0), default=3, show_default=True, help="Events to draw.")
@click.option(
    "--max-clouds",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Number of clouds in the distributions, spread over the split.",
)
@json_option
def command(dataset: str, out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Draw the distributions of every feature and label of DATASET, and a few of its events.

    \b
    Example:
      hept-data simulate pileup pileup.root --events 20
      hept-data build pileup pileup.root pileup
      hept-data plot pileup --out pictures
    """
    files = plot(dataset, out, **arguments, progress=True)
    for file in files:
        click.echo(file)
    write_json(json_path, {"dataset": dataset, "files": files})
