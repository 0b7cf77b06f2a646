"""`hept-train predict`: embedding, score and track of every point."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import hept
from hept.commands import is_raw
from hept.devices.choice import Precision

from .frame import device_option, json_option, precision_option, threads_option, write_json
from .tables import print_table


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
@device_option
@precision_option
@threads_option
@json_option
def command(
    model: Path,
    dataset: str,
    out: Path,
    split: str | None,
    method: Literal["tree", "dbscan", "hdbscan"] | None,
    eps: float | None,
    min_points: int | None,
    detectors: Path | None,
    layers: str | None,
    max_events: int | None,
    branches: str,
    scored_pt: float | None,
    device: str,
    precision: Precision | None,
    threads: int | None,
    json_path: Path | None,
) -> None:
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
    if dataset.endswith(".root"):
        cleaned = hept.clean(
            model,
            dataset,
            out,
            branches=branches,
            scored_pt=scored_pt,
            device=device,
            precision=precision,
            threads=threads,
            progress=True,
        )
        counts: list[tuple[str, object]] = [("events", cleaned.n_events), ("particles", cleaned.n_particles)]
        print_table(f"{cleaned.out}", ("", "count"), counts)
        write_json(json_path, {"out": str(cleaned.out), **dict(counts)})
        return
    if is_raw(dataset):
        found = hept.find_raw_tracks(
            model,
            dataset,
            out,
            detectors=detectors,
            layers=layers,
            max_events=max_events,
            method=method,
            eps=eps,
            min_points=min_points,
            device=device,
            precision=precision,
            threads=threads,
            progress=True,
        )
        counts = [("events", found.n_events), ("hits", found.n_hits), ("tracks", found.n_tracks)]
        times = [(f"{step}, ms an event", 1000 * seconds) for step, seconds in found.seconds.items()]
        print_table(f"{found.out} and {found.fits.name}", ("", ""), [*counts, *times])
        write_json(json_path, {**vars(found)})
        return
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
