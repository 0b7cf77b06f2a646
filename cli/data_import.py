"""`hept-data import`: torch_geometric point clouds, as published, to a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.building import import_pyg

from .build_options import build_options, report_build


@click.command("import")
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("out")
@click.option(
    "--trust",
    is_flag=True,
    help="Read pickles with other objects than tensors; such a file can run any program.",
)
@build_options
def command(folder: Path, out: str, json_path: Path | None, **arguments: Any) -> None:
    """Turn a FOLDER of torch_geometric .pt point clouds into a dataset in the new folder, or at the URL, OUT.

    Reads the files published for HEPT and those of gnn_tracking: x, pos, particle_id, pt, reconstructable,
    layer and point pairs; one cloud per file, or all in one.

    \b
    Example:
      hept-data import published imported
    """
    report_build(import_pyg(folder, out, **arguments, progress=True), "Imported dataset", json_path)
