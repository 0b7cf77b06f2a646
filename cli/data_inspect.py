"""`hept-data inspect`: what a Delphes file contains."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hepdata.commands import inspect
from hepdata.schema import SCORED_PT

from .command_line import json_option, write_json
from .printing import console, print_table

if TYPE_CHECKING:
    from hepdata.pipeline.pileup_inspect import EventReport, FitReport, Inspection


@click.command("inspect")
@click.argument("file", metavar="FILE.root")
@click.option("--event", type=int, default=0, show_default=True, help="Which event to count.")
@click.option(
    "--branches",
    default="auto",
    show_default=True,
    help="Preset (pf, particle-flow-candidate, eflow), auto, or a YAML map.",
)
@click.option("--leaves", is_flag=True, help="Also name the leaves of every branch, for a YAML map.")
@json_option
def command(file: str, event: int, branches: str, leaves: bool, json_path: Path | None) -> None:
    """Show what a Delphes file contains: branches, presets that fit, sources of labels, counts of one event.

    \b
    Example:
      hept-data simulate pileup pileup.root --events 20
      hept-data inspect pileup.root
    """
    seen = inspect(file, event=event, branches=branches)
    _print(seen)
    if leaves:
        for name, found in seen.survey.contents.items():
            text = f"{name}: {', '.join(sorted(found))}"
            console.print(text, highlight=False, soft_wrap=True, markup=False)
    write_json(json_path, _as_json(seen))


def _print(seen: Inspection) -> None:
    survey = seen.survey
    cycles = f", newest of {survey.n_cycles} cycles" if survey.n_cycles > 1 else ""
    print_table(
        f"{survey.location}: {survey.n_events} events, ROOT {survey.root_version}{cycles}",
        ("branch", "class", "leaves", "in the event"),
        [
            (name, survey.classes[name] or "–", len(leaves), seen.n_in_event.get(name))
            for name, leaves in survey.contents.items()
        ],
    )
    console.print("Presets", style="bold")
    for fit in seen.fits:
        console.print(f"  {fit.preset}: {_fit_text(fit)}", highlight=False, soft_wrap=True, markup=False)
    if seen.chosen is None:
        console.print("No preset fits: describe the branches in a YAML map and give it with --branches.")
    elif seen.event is not None:
        print_table(
            f"Event {seen.event.entry} through {seen.chosen}",
            ("quantity", "value"),
            _event_rows(seen.event),
        )


def _fit_text(fit: FitReport) -> str:
    from hepdata.readers.delphes_kinematics import MASS_RULE

    if fit.reason:
        return f"does not fit ({fit.reason})"
    computed = "nothing to compute"
    if fit.computed:
        computed = f"computed: {', '.join(fit.computed)} (mass: {MASS_RULE})"
    if fit.label_reason:
        return f"fits; {computed}; no training labels ({fit.label_reason})"
    labels = ", ".join(f"{branch} by {rule}" for branch, rule in fit.labels.items())
    return f"fits; {computed}; training labels: {labels}"


def _event_rows(event: EventReport) -> list[tuple[str, object]]:
    return [
        ("points", event.n_points),
        ("dropped (outside |η| acceptance)", event.n_dropped),
        ("charged", event.n_charged),
        ("neutral", event.n_points - event.n_charged),
        (f"scored (neutral, pT > {SCORED_PT:g} GeV)", event.n_scored),
        ("leading", event.n_leading),
        ("scored and leading", event.n_scored_leading),
    ]


def _as_json(seen: Inspection) -> dict[str, object]:
    survey = seen.survey
    return {
        "file": survey.location,
        "events": survey.n_events,
        "cycles": survey.n_cycles,
        "root_version": survey.root_version,
        "branches": {
            name: {
                "class": survey.classes[name],
                "leaves": sorted(leaves),
                "in_event": seen.n_in_event.get(name),
            }
            for name, leaves in survey.contents.items()
        },
        "presets": [asdict(fit) for fit in seen.fits],
        "chosen": seen.chosen,
        "event": None if seen.event is None else asdict(seen.event),
    }
