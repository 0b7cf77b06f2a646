"""`hept-train doctor`: whether this machine computes right, and how fast."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

import hept

from .command_line import device_option, json_option, threads_option, write_json
from .printing import console

_STYLES = {"ok": "green", "wrong": "bold red", "slow": "yellow", "skipped": "dim"}


@click.command("doctor")
@device_option
@click.option("--full", is_flag=True, help="Times at 60,000 and 2^18 points on a CPU too, which takes long.")
@threads_option
@json_option
def command(device: str, full: bool, threads: int | None, json_path: Path | None) -> int:
    """Examine whether this machine computes right, and how fast: a line for each thing looked at.

    A minute or two on an idle CPU, some minutes on a GPU. Exit code 1 if anything is wrong; "slow" is where
    the authors' procedure is faster, as it may seem on a busy machine. Please send us the file of --json.

    \b
    Example:
      hept-train doctor --json doctor.json
    """
    found = hept.doctor(device=device, full=full, threads=threads, progress=True)
    table = Table(show_lines=False)
    table.add_column("")
    table.add_column("looked at", no_wrap=True)
    table.add_column("found", overflow="fold")
    for verdict in found.verdicts:
        table.add_row(Text(verdict.status, _STYLES[verdict.status]), Text(verdict.name), Text(verdict.text))
    console.print(table)
    n_wrong = sum(verdict.status == "wrong" for verdict in found.verdicts)
    console.print(f"{n_wrong} of {len(found.verdicts)} wrong" if n_wrong else "Nothing is wrong.")
    write_json(json_path, found.as_dict())
    if json_path is not None:
        console.print(f"Send {json_path} with an issue, or for our table of GPUs.", highlight=False)
    return 0 if found.is_well else 1
