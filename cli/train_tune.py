"""`hept-train tune`: search settings on the validation split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hept

from .command_line import model_options, write_json
from .printing import console, print_table


@click.command("tune")
@click.argument("dataset")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder of the study; every trial is a run folder in it.",
)
@click.option(
    "--search",
    multiple=True,
    required=True,
    metavar="KEY=RANGE",
    help="A setting and its range LOW:HIGH or LOW:HIGH:log, or its choices A,B,C.",
)
@click.option(
    "--trials", type=click.IntRange(1), default=20, show_default=True, help="Finished trials in all."
)
@click.option("--preset", metavar="NAME", help="As in fit.  [default: by task, cloud size and device]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of all trials.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the proposals.")
@model_options
def command(dataset: str, out: Path, json_path: Path | None, **arguments: Any) -> None:
    """Search settings for DATASET that do best on its validation split (pip install 'hept[tune]').

    The same command goes on with a search that was killed, or adds trials to one that has ended.

    \b
    Examples:
      hept-train tune tracking --out runs/tune --search optimizer.lr=1e-4:1e-2:log --preset tracking-demo
      hept-train tune tracking --out runs/tables --search model.n_tables=1,2 --preset tracking-demo --trials 2
    """
    found = hept.tune(dataset, out, **arguments, progress=True)
    if not found:
        console.print("No trial is finished; the same command goes on.")
        return
    names = list(found[0].settings)
    rows = [(trial.run.name, trial.value, *(str(trial.settings[name]) for name in names)) for trial in found]
    print_table(f"Trials in {out}, the best first", ("run", "best (validation)", *names), rows)
    write_json(json_path, [vars(trial) for trial in found])
    console.print(f"Next: hept-train eval {found[0].run}", highlight=False, soft_wrap=True)
