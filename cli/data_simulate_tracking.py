"""`hept-data simulate tracking`: TrackML events of a simulated pixel detector."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from hepdata.commands import simulate_tracking
from hepdata.schema import SCORED_PT
from hepdata.simulate.trackml_writer import FIRST_EVENT, SimulationSummary

from .command_line import json_option, write_json
from .printing import format_bytes, print_table


@click.command("tracking", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--events", default=10, show_default=True, help="How many events.")
@click.option(
    "--hits-per-event",
    type=int,
    help="Mean number of hits, noise included.  [default: 2000; with --engine acts 13000]",
)
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--engine",
    type=click.Choice(["toy", "acts"]),
    default="toy",
    show_default=True,
    help="Who simulates.",
)
@click.option("--first-event", default=FIRST_EVENT, show_default=True, help="Number of the first event.")
@click.option("--gzip/--no-gzip", default=False, help="Write .csv.gz files.  [default: no-gzip]")
@click.option(
    "--workers", type=int, help="Processes; same events with any number.  [default: 1; acts: one per core]"
)
@json_option
def command(out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Simulate TrackML events into the folder OUT.

    Writes hits, cells, particles and truth of each event, and detectors.csv, in the files of the TrackML
    challenge. Files of the same names in OUT are replaced; OUT may hold no other events.

    The engine "toy" needs nothing: charged particles in 2 T through four barrel layers and seven discs on
    each side, with multiple scattering, jets, decays in flight, merged clusters, inefficiency and 15 %
    noise. The engine "acts"
    simulates the whole TrackML detector (pip install 'hept[acts]'): top pairs with pileup by Pythia,
    transport through the material by ACTS Fatras, hadronic interactions, merged clusters, noise.

    \b
    Examples:
      hept-data simulate tracking raw --events 20 --hits-per-event 2000
      hept-data simulate tracking realistic --events 1000 --engine acts
    """
    summary = simulate_tracking(out, **arguments, progress=True)
    _print_summary(out, summary)
    write_json(json_path, {"out": str(out), **dataclasses.asdict(summary)})


def _print_summary(out: Path, summary: SimulationSummary) -> None:
    print_table(
        f"Simulated TrackML events in {out}",
        ("", "total", "per event"),
        [
            (name, total, round(total / summary.n_events))
            for name, total in (
                ("hits", summary.n_hits),
                ("of these noise", summary.n_noise),
                ("cells", summary.n_cells),
                ("particles", summary.n_particles),
                (f"of these pt > {SCORED_PT:g} GeV", summary.n_high_pt),
            )
        ]
        + [("size", format_bytes(summary.n_bytes), format_bytes(summary.n_bytes / summary.n_events))],
    )
