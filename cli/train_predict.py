"""`hept-train predict`: embedding, score and track of every point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hept
from hept.commands import is_raw

from .command_line import model_options, write_json
from .printing import print_table


@click.command("predict")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--split", help="One split.  [default: all]")
@click.option("--method", type=click.Choice(["tree", "dbscan", "hdbscan"]), help="How tracks are found.")
@click.option("--eps", type=float, help="Largest distance of neighbours in a track (dbscan).")
@click.option("--min-points", type=click.IntRange(1), help="Smallest neighbourhood or track.")
@click.option(
    "--detectors",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Of raw tracking events, as for `hept-data build`.",
)
@click.option("--layers", metavar="NAME", help="Of raw tracking events, as for `hept-data build`.")
@click.option("--max-events", type=click.IntRange(1), help="Of raw tracking events.")
@click.option(
    "--branches", default="auto", show_default=True, help="Of a ROOT file, as for `hept-data build`."
)
@click.option(
    "--scored-pt",
    type=float,
    help="Of a ROOT file: weigh neutrals above this pT in GeV.  [default: as in training, at most 0.9]",
)
@model_options
def command(model: Path, dataset: str, out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Write MODEL's answer for every point of DATASET to a Parquet file, or the tracks of raw events.

    Where DATASET is a folder or zip of raw TrackML, ACTS or ColliderML events, the tracks are written event
    by event: hits with their track to FILE (.parquet, or .csv as a TrackML submission), and beside it, in
    .fits.parquet, one row a track with pT, charge, η, φ, d0, z0, their errors and χ².

    Where DATASET is a Delphes ROOT file, a pileup model writes score, weight and scaled four-momentum of its
    particles, one entry an event in the order of the source: a tree `cleaned` to be used as a friend
    (--out FILE.root), or Parquet.

    Tracks are found as `hept-train tune-clustering` chose for the model, unless given here. Where it was not
    run, the choice is made on the validation split, or the tree finds its scale itself; a line says so.

    \b
    Examples:
      hept-train predict runs/a tracking --out hits.parquet
      hept-train predict runs/pileup pileup.root --out pileup_cleaned.root
    """

    def choose(*names: str) -> dict[str, Any]:
        shared = ("device", "precision", "threads")
        return {name: arguments[name] for name in (*names, *shared)} | {"progress": True}

    clustering = ("method", "eps", "min_points")
    if dataset.endswith(".root"):
        cleaned = hept.clean(model, dataset, out, **choose("branches", "scored_pt"))
        rows = {"events": cleaned.n_events, "particles": cleaned.n_particles}
        print_table(f"{cleaned.out}", ("", "count"), list(rows.items()))
        write_json(json_path, {"out": str(cleaned.out), **rows})
    elif is_raw(dataset):
        found = hept.find_raw_tracks(
            model, dataset, out, **choose(*clustering, "detectors", "layers", "max_events")
        )
        counts = [("events", found.n_events), ("hits", found.n_hits), ("tracks", found.n_tracks)]
        times = [(f"{step}, ms an event", 1000 * seconds) for step, seconds in found.seconds.items()]
        print_table(f"{found.out} and {found.fits.name}", ("", ""), [*counts, *times])
        write_json(json_path, vars(found))
    else:
        result = hept.predict(model, dataset, out, **choose(*clustering, "split"))
        rows = {"clouds": result.n_clouds, "points": result.n_points}
        rows |= {} if result.n_tracks is None else {"tracks": result.n_tracks}
        print_table(f"{result.out}", ("", "count"), list(rows.items()))
        write_json(json_path, {"out": str(result.out), **rows})
