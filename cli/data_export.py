"""`hept-data export`: one split as a padded HDF5 file for weaver, JetNet and the like."""

from __future__ import annotations

from pathlib import Path

import click

from hepdata import open_dataset


@click.command("export")
@click.argument("dataset", metavar="DATASET")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--split", default="train", show_default=True, help="Which split.")
@click.option(
    "--max-points", type=click.IntRange(min=1), help="Points a cloud; the largest cloud's by default."
)
@click.option("--unscaled", is_flag=True, help="Features as stored, without the scales of the manifest.")
def command(dataset: str, out: Path, split: str, max_points: int | None, unscaled: bool) -> None:
    """Write one split of DATASET to the padded HDF5 file OUT: clouds × points × features, and a mask.

    Clouds with more points than --max-points keep those of highest pt.

    \b
    Example:
      hept-data export pileup train.h5 --max-points 4096
    """
    clouds = open_dataset(dataset)[split]
    n_lost = clouds.to_padded_hdf5(out, max_points, scaled=not unscaled)
    click.echo(f"{out}: {len(clouds):,} clouds of split {split}, {n_lost:,} points did not fit")
