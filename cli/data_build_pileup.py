"""`hept-data build pileup`: Delphes files to a dataset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from hepdata.building import build_pileup
from hepdata.errors import InputError
from hepdata.pipeline.pileup_source import PRESETS

from .build_options import build_options, point_options, report_build

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


class _ByteSize(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is not a size such as 64MB or 500kB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2]])


@click.command("pileup", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="FILE.root...")
@click.argument("out")
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="pileup-10k",
    show_default=True,
    help="Settings of the published dataset; other options change single ones.",
)
@click.option(
    "--branches",
    metavar="NAME",
    help="pf, particle-flow-candidate, eflow, auto, or a YAML map of your own.  [default: auto]",
)
@click.option(
    "--events", metavar="FIRST-LAST", help="Only these events, counted through all files from 0, inclusive."
)
@click.option(
    "--max-events", type=click.IntRange(1), help="At most this many events, in the order of the files."
)
@click.option("--max-eta", type=float, help="Drop particles with an absolute η above this.  [default: 20]")
@click.option(
    "--scored-pt", type=float, help="Neutral points above this pT in GeV are scored.  [default: 0.9]"
)
@click.option("--unlabelled", is_flag=True, help="Build without labels, as needed for a sample without them.")
@click.option(
    "--step-size",
    type=_ByteSize(),
    help="Bytes that a worker reads at a time; changes the memory, not the result.  [default: 64MB]",
)
@point_options
@build_options
def command(files: tuple[str, ...], out: str, json_path: Path | None, **arguments: Any) -> None:
    """Build a dataset from Delphes files (paths, globs, folders or URLs) in the new folder or at the URL OUT.

    Particle-flow particles become points with kinematics, a particle class and the label: leading collision
    or pileup. `hept-data inspect` shows what a file contains. Stopped at any time, the same command
    continues.

    \b
    Example:
      hept-data simulate pileup pileup.root --events 20
      hept-data build pileup pileup.root pileup --workers 2
    """
    if not files or Path(out).suffix == ".root":
        raise InputError(
            "OUT",
            found=f"{out!r} alone" if not files else f"{out!r}, the name of a ROOT file",
            expected="a new folder for the dataset after the files",
            remedy="add the folder at the end of the command",
        )
    built = build_pileup(files, out, **arguments, progress=True)
    report_build(built, f"Pileup dataset ({built.branches})", json_path)
