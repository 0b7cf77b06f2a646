"""`hept-data merge`: several datasets become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import merge

from .command_line import json_option, write_json
from .written_dataset import compression_option, describe_written, print_written


@click.command("merge")
@click.argument("datasets", metavar="DATASET…", nargs=-1, required=True)
@click.argument("out")
@compression_option
@json_option
def command(datasets: tuple[str, ...], out: str, json_path: Path | None, **arguments: Any) -> None:
    """Put the clouds of several DATASETs into the new folder, or the URL, OUT.

    They must have been built with the same configuration, from different events.

    \b
    Example:
      hept-data build tracking raw part1 --events 1000-1009
      hept-data build tracking raw part2 --events 1010-1019
      hept-data merge part1 part2 merged
    """
    manifest = merge(datasets, out, **arguments, progress=True).manifest
    print_written(f"{len(datasets)} datasets merged in {out}", manifest)
    write_json(json_path, {"merged": list(datasets), **describe_written(out, manifest)})
