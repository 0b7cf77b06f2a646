"""`hept-data simulate pileup`: a Delphes file without Delphes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hepdata.commands import simulate_pileup
from hepdata.schema import SCORED_PT

from .command_line import json_option, write_json
from .printing import format_bytes, print_table


@click.command("pileup")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--events", type=int, default=100, show_default=True, help="Events to simulate.")
@click.option(
    "--pileup",
    type=float,
    default=50.0,
    show_default=True,
    help="Mean number of soft collisions in an event; 50 give about 10,000 particles.",
)
@click.option(
    "--pileup-max",
    type=float,
    help="Mix events: draw the mean number of each evenly from --pileup to this one.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same bytes.")
@json_option
def command(out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Write a Delphes ROOT file: a hard collision with jets and a lepton over soft ones.

    The file has a tree `Delphes` with a GenParticle-class branch `PF`, as the published pileup sample has.
    Over 50 soft collisions, about 13 % of the neutral particles above 0.9 GeV come from the hard one.

    \b
    Example:
      hept-data simulate pileup pileup.root --events 20
      hept-data simulate pileup mixed.root --events 20 --pileup 10 --pileup-max 60
    """
    sample = simulate_pileup(out, **arguments, progress=True)
    size = sample.path.stat().st_size
    summary = {
        "events": sample.n_events,
        "particles per event": round(sample.n_points / sample.n_events),
        "charged fraction": sample.n_charged / max(sample.n_points, 1),
        "leading fraction": sample.n_leading / max(sample.n_points, 1),
        f"scored per event (neutral, pT > {SCORED_PT:g} GeV)": sample.n_scored / sample.n_events,
        "leading fraction of scored": sample.n_scored_leading / max(sample.n_scored, 1),
    }
    print_table(f"{out}, {format_bytes(size)}", ("quantity", "value"), list(summary.items()))
    write_json(json_path, {"file": out, "bytes": size, **summary})
