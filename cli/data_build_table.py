"""`hept-data build table`: any table of points to a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.building import build_table
from hepdata.errors import InputError

from .build_options import build_options, point_options, report_build


@click.command("table", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="FILE...")
@click.argument("out")
@click.option(
    "--schema",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.yaml",
    help="Task, event number, columns, coordinates, features and target of the table.",
)
@click.option("--events", metavar="FIRST-LAST", help="Only events with these ids, inclusive.")
@click.option("--max-events", type=click.IntRange(1), help="At most this many events, lowest ids first.")
@click.option(
    "--pairs",
    type=click.Choice(["paper", "published", "none"]),
    help="Definition of the pair lists, for the objective pairs.  [default: paper]",
)
@click.option("--negatives", type=click.IntRange(1), help="Negatives per point.  [default: 256]")
@click.option(
    "--radius", type=float, help="Largest distance of neighbours, --pairs published only.  [default: 1]"
)
@click.option("--unlabelled", is_flag=True, help="Build without labels, as for events to be predicted.")
@point_options
@build_options
def command(files: tuple[str, ...], out: str, json_path: Path | None, **arguments: Any) -> None:
    """Build a dataset from tables of points (paths or globs) in the new folder or at the URL OUT.

    A row is a point, and a column numbers the events; or, in Parquet and ROOT, a row is an event with lists
    of points. The schema says what the columns are and what is to be learned; `hept-train fit` then needs
    no more. Stopped at any moment, the same command continues.

    \b
    Example:
      hept-data build table cells.parquet showers --schema cells.yaml
    """
    if not files:
        raise InputError(
            "OUT",
            found=f"{out!r} alone",
            expected="a new folder for the dataset after the files",
            remedy="add the folder at the end of the command",
        )
    report_build(build_table(files, out, **arguments, progress=True), "Dataset of a table", json_path)
