"""`hept-data info`: what a dataset is, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

import click

from hepdata import open_dataset

from .command_line import json_option, write_json
from .printing import print_lines


@click.command("info")
@click.argument("dataset", metavar="DATASET")
@json_option
def command(dataset: str, json_path: Path | None) -> None:
    """Show what DATASET holds: clouds, points, pairs, labels, ranges of every column.

    \b
    Example:
      hept-data info tracking
    """
    info = open_dataset(dataset).info()
    print_lines(str(info))
    write_json(json_path, info.as_dict())
