"""`hept-data convert`: Parquet to HDF5 and back."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from hepdata.storage.convert import convert_dataset
from hepdata.storage.manifest import Manifest

from .frame import json_option, write_json
from .progress import ProgressBar
from .written_dataset import describe_written, print_written


@click.command("convert")
@click.argument("dataset", metavar="DATASET")
@click.argument("out")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "hdf5"]),
    help="Format of OUT; the other one where not given.",
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
    if file_format is None:
        file_format = "hdf5" if Manifest.read(dataset).file_format == "parquet" else "parquet"
    with ProgressBar() as progress:
        manifest = convert_dataset(dataset, out, file_format, compression=compression, progress=progress)
    print_written(f"{dataset} as {file_format} in {out}", manifest)
    write_json(json_path, describe_written(out, manifest))
