"""`hept-train predict`: embedding, score and track of every point."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import hept
from hept.devices.choice import Precision

from .frame import device_option, json_option, precision_option, threads_option, write_json
from .tables import print_table


@click.command("predict")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--split", help="One split.  [default: all]")
@click.option("--method", type=click.Choice(["dbscan", "hdbscan"]), help="Clustering of tracks.")
@click.option("--eps", type=float, help="Largest distance of neighbours in a track (dbscan).")
@click.option("--min-points", type=click.IntRange(1), help="Smallest neighbourhood or track.")
@device_option
@precision_option
@threads_option
@json_option
def command(
    model: Path,
    dataset: str,
    out: Path,
    split: str | None,
    method: Literal["dbscan", "hdbscan"] | None,
    eps: float | None,
    min_points: int | None,
    device: str,
    precision: Precision | None,
    threads: int | None,
    json_path: Path | None,
) -> None:
    """Write MODEL's answer for every point of DATASET to a Parquet file.

    Tracks are found with the clustering that `hept-train tune-clustering` chose for the run, unless given
    here.

    \b
    Example:
      hept-train predict runs/a tracking --out hits.parquet
    """
    result = hept.predict(
        model,
        dataset,
        out,
        split=split,
        method=method,
        eps=eps,
        min_points=min_points,
        device=device,
        precision=precision,
        threads=threads,
        progress=True,
    )
    rows: list[tuple[str, object]] = [("clouds", result.n_clouds), ("points", result.n_points)]
    if result.n_tracks is not None:
        rows.append(("tracks", result.n_tracks))
    print_table(f"{result.out}", ("", "count"), rows)
    write_json(json_path, {"out": str(result.out), **dict(rows)})
