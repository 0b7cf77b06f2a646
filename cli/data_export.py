"""`hept-data export`: one split as a padded HDF5 file for weaver, JetNet and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata import export_padded, open_dataset

from .command_line import json_option, write_json
from .printing import format_bytes, print_table


@click.command("export")
@click.argument("dataset", metavar="DATASET")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--split", default="train", show_default=True, help="Which split.")
@click.option(
    "--max-points", type=click.IntRange(min=1), help="Points per cloud.  [default: size of the largest cloud]"
)
@click.option(
    "--unscaled",
    "scaled",
    flag_value=False,
    default=True,
    help="Features as stored, without the scales of the manifest.",
)
@json_option
def command(
    dataset: str, out: Path, split: str, max_points: int | None, scaled: bool, json_path: Path | None
) -> None:
    """Write one split of DATASET to the padded HDF5 file OUT: clouds × points × features, and a mask.

    Clouds with more points than --max-points keep those of highest pt.

    Datasets only: `hept-train export` writes trained models.

    \b
    Example:
      hept-data export pileup train.h5 --max-points 4096
    """
    clouds = open_dataset(dataset)[split]
    n_lost = export_padded(dataset, out, split=split, max_points=max_points, scaled=scaled, progress=True)
    statistics = clouds.manifest.statistics(split)
    summary = {
        "out": out,
        "split": split,
        "clouds": len(clouds),
        "points_per_cloud": max_points or statistics.n_points_max or 1,
        "points": statistics.n_points,
        "points_lost": n_lost,
        "features": [entry.column for entry in clouds.schema.features],
        "scaled": scaled,
        "bytes": out.stat().st_size,
    }
    _print(summary)
    write_json(json_path, summary)


def _print(summary: dict[str, Any]) -> None:
    rows = [
        ("clouds", summary["clouds"]),
        ("points in a row of the file", summary["points_per_cloud"]),
        ("points", summary["points"]),
        ("points that did not fit", summary["points_lost"]),
        ("features", f"{len(summary['features'])}, {'scaled' if summary['scaled'] else 'as stored'}"),
        ("size", format_bytes(summary["bytes"])),
    ]
    print_table(f"split {summary['split']}, padded, in {summary['out']}", ("", "total"), rows)
