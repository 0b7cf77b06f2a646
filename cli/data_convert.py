"""`hept-data convert`: Parquet to HDF5 and back."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from hepdata.commands import convert

from .frame import json_option, write_json
from .written_dataset import describe_written, print_written


@click.command("convert")
@click.argument("dataset", metavar="DATASET")
@click.argument("out")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "hdf5"]),
    help="Format of OUT.  [default: the other one]",
)
@click.option(
    "--compression",
    type=click.Choice(["gzip", "none"]),
    default="none",
    show_default=True,
    help="Of HDF5 files: gzip is about ten times smaller with pairs, and several times slower to read.",
)
@json_option
def command(
    dataset: str,
    out: str,
    file_format: Literal["parquet", "hdf5"] | None,
    compression: Literal["gzip", "none"],
    json_path: Path | None,
) -> None:
    """Write DATASET in the other format to the new folder, or the URL, OUT; nothing is lost.

    \b
    Example:
      hept-data convert tracking tracking-h5 --format hdf5
    """
    manifest = convert(dataset, out, file_format=file_format, compression=compression, progress=True).manifest
    print_written(f"{dataset} as {manifest.file_format} in {out}", manifest)
    write_json(json_path, describe_written(out, manifest))
