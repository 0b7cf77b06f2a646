"""`hept-data convert`: Parquet to HDF5 and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import convert

from .command_line import json_option, write_json
from .written_dataset import compression_option, describe_written, print_written


@click.command("convert")
@click.argument("dataset", metavar="DATASET")
@click.argument("out")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "hdf5"]),
    help="Format of OUT.  [default: the other one]",
)
@compression_option
@json_option
def command(dataset: str, out: str, json_path: Path | None, **arguments: Any) -> None:
    """Write DATASET in the other format to the new folder, or the URL, OUT; nothing is lost.

    \b
    Example:
      hept-data convert tracking tracking-h5 --format hdf5
    """
    manifest = convert(dataset, out, **arguments, progress=True).manifest
    print_written(f"{dataset} as {manifest.file_format} in {out}", manifest)
    write_json(json_path, describe_written(out, manifest))
