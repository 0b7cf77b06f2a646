"""`hept-train view`: events with a model's answers on an interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hept

from .command_line import device_option, precision_option, threads_option


@click.command("view")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", help="Which split to show.  [default: test, or valid where that is empty]")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The HTML file.  [default: view-SPLIT.html in the run folder]",
)
@click.option("--events", type=click.IntRange(1), default=5, show_default=True, help="How many events.")
@device_option
@precision_option
@threads_option
def command(run: Path, dataset: str | None, **arguments: Any) -> None:
    """Write a page that shows events with the truth beside the tracks or scores of RUN.

    The page is one file; any browser opens it, without a server or a network. A click selects a track.

    \b
    Examples:
      hept-train view runs/a
      hept-train view runs/a tracking --split valid --out events.html
    """
    click.echo(hept.view(run, dataset, **arguments, progress=True))
