"""`hept-data view`: events on an interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import view


@click.command("view")
@click.argument("dataset")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The HTML file.  [default: view-DATASET.html in the current folder]",
)
@click.option("--split", default="train", show_default=True, help="Which split to show.")
@click.option("--events", type=click.IntRange(1), default=5, show_default=True, help="How many events.")
def command(dataset: str, **arguments: Any) -> None:
    """Write a page that shows events of DATASET: η–φ and 3-D, colours, filters, all columns of every hit.

    The page is one file; any browser opens it, without a server or a network.

    \b
    Example:
      hept-data simulate tracking raw --events 20 --hits-per-event 2000
      hept-data build tracking raw tracking --workers 2
      hept-data view tracking --out events.html
    """
    click.echo(view(dataset, **arguments))
