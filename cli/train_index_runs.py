"""`hept-train index-runs`: one page that lists all runs of a folder."""

from __future__ import annotations

from pathlib import Path

import click

import hept


@click.command("index-runs")
@click.argument("folder", type=click.Path(path_type=Path), default="runs")
def command(folder: Path) -> None:
    """Write index.html into FOLDER (by default runs): every run below it, with a link to its report.

    \b
    Example:
      hept-train index-runs runs
    """
    page, _ = hept.index_runs(folder)
    click.echo(page)
