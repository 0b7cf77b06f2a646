"""`hept-train score`: how good the tracks of any tracker are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hept
from hepdata.schema import SCORED_PT

from .command_line import json_option, write_json
from .printing import console, print_table


@click.command("score")
@click.argument("tracks", type=click.Path(path_type=Path))
@click.argument("dataset")
@click.option("--split", default="test", show_default=True, help="Split whose events are scored.")
@click.option("--pt-min", default=SCORED_PT, show_default=True, help="Targets have a larger pT, in GeV.")
@click.option("--eta-max", type=float, help="Targets are nearer to η = 0 than this.")
@click.option("--min-hits", default=0, help="Hits of a target at least.")
@click.option("--min-layers", default=0, help="Layers of a target at least, beyond the dataset's three.")
@click.option(
    "--primary/--secondary", default=None, help="Only targets from the beam line, or only the others."
)
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw it.")
@json_option
def command(tracks: Path, dataset: str, json_path: Path | None, **arguments: Any) -> None:
    """Score TRACKS, the output of any tracker, against the truth of DATASET.

    TRACKS is Parquet or CSV with event_id, hit_id and track_id (a TrackML submission, the output of
    `predict`), or ColliderML's tracks. Efficiencies have Clopper–Pearson intervals, those of the others come
    from drawing the events anew; all are of one standard deviation. Sectors of an event are joined.

    \b
    Example:
      hept-train predict runs/a tracking --out tracks.parquet
      hept-train score tracks.parquet tracking --picture tracks.png
    """
    scored = hept.score_tracks(tracks, dataset, **arguments, progress=True)
    # Imported after all checks.
    from hept.evaluation.scoring import PROPERTIES

    rows = [
        (
            figure.name,
            figure.value,
            f"{figure.low:.4g} – {figure.high:.4g}",
            f"{figure.n_all:,} {figure.unit}",
        )
        for figure in scored.score.figures()
    ]
    print_table(f"{tracks} on {scored.n_events:,} events", ("", "value", "68 % interval", "of"), rows)
    for name, (edges, rates) in scored.bins().items():
        binned = []
        for place in range(len(edges) - 1):
            counts = [(rate.value[place], int(rate.n_all[place])) for rate in rates.values()]
            cells = (cell for value, n_all in counts for cell in (value if n_all else None, n_all))
            binned.append((f"{edges[place]:.3g} to {edges[place + 1]:.3g}", *cells))
        header = (PROPERTIES[name], *(head for rate in rates for head in (rate.replace("_", " "), "of")))
        print_table(f"Double majority against {PROPERTIES[name]}", header, binned)
    for text, count in (
        ("events of the split have no tracks; all of their targets count as missed", scored.n_without_tracks),
        ("other events in the file were not counted", scored.n_other_events),
        ("hits of tracks are not in the dataset and were not counted", scored.n_unknown_hits),
    ):
        if count:
            console.print(f"{count:,} {text}.", highlight=False)
    write_json(json_path, scored.to_json())
