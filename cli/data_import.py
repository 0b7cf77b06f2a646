"""`hept-data import`: torch_geometric point clouds, as published, to a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from .build_options import BuildOptions, build_options, run_build


@click.command("import")
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("out")
@click.option(
    "--trust",
    is_flag=True,
    help="Read pickles that are more than tensors; such a file can run any program.",
)
@build_options
def command(folder: Path, out: str, trust: bool, options: BuildOptions) -> None:
    """Turn a FOLDER of torch_geometric .pt point clouds into a dataset in the new folder, or at the URL, OUT.

    Reads the files published for HEPT and those of gnn_tracking: x, pos, particle_id, pt, reconstructable,
    layer and point pairs; one cloud a file, or all in one.

    \b
    Example:
      hept-data import published imported
    """
    # Imported after all checks: torch takes seconds.
    from .pyg_source import PygSource

    run_build(PygSource.open(folder, trust), out, options, "Imported dataset")
