"""`hept-train predict`: embedding, score and track of every point."""

from __future__ import annotations

from pathlib import Path

import click

from .frame import json_option, threads_option, write_json
from .progress import ProgressBar
from .tables import console, print_table
from .train_eval import open_inputs


@click.command("predict")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--split", help="One split.  [default: all]")
@click.option("--method", type=click.Choice(["dbscan", "hdbscan"]), help="Clustering of tracks.")
@click.option("--eps", type=float, help="Largest distance of neighbours in a track (dbscan).")
@click.option("--min-points", type=click.IntRange(1), help="Smallest neighbourhood or track.")
@threads_option
@json_option
def command(
    model: Path,
    dataset: str,
    out: Path,
    split: str | None,
    method: str | None,
    eps: float | None,
    min_points: int | None,
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
    opened = open_inputs(model, dataset, split)
    # Imported after all checks: torch takes seconds.
    from hept.checkpoint import load_model
    from hept.evaluation.clustering import Clustering
    from hept.evaluation.predictor import predict
    from hept.evaluation.tuning import load_clustering
    from hept.threads import choose_threads, use_threads

    trained = load_model(model)
    clustering = load_clustering(model) if model.is_dir() else None
    if trained.is_embedding and clustering is None and eps is None and method != "hdbscan":
        console.print(
            "note: the clustering was not tuned for this model; run hept-train tune-clustering first",
            highlight=False,
        )
    chosen = clustering or Clustering()
    chosen = Clustering(
        method=method or chosen.method,  # type: ignore[arg-type]  # click has checked it
        eps=chosen.eps if eps is None else eps,
        min_points=min_points or chosen.min_points,
    )
    with use_threads(choose_threads(threads)), ProgressBar() as progress:
        result = predict(trained, opened, out, split=split, clustering=chosen, progress=progress)
    rows: list[tuple[str, object]] = [("clouds", result.n_clouds), ("points", result.n_points)]
    if trained.is_embedding:
        rows.append(("tracks", result.n_tracks))
    print_table(f"{result.out}", ("", "count"), rows)
    write_json(json_path, {"out": str(result.out), **dict(rows)})
