"""What all builds share on the command line: engine, splits, shards, and the summary at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hepdata.building import BuiltDataset
from hepdata.pipeline.build import BuildSummary
from hepdata.pipeline.split_rule import SplitRule

from .command_line import json_option, write_json
from .flags import name_flags
from .printing import console, format_bytes, print_table


def build_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every build has; their names are those of the functions' parameters."""
    options: list[Callable[[Any], Any]] = [
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="Processes.  [default: 1; for 256 MB of Delphes files or more one per core, up to 4]",
        ),
        click.option(
            "--engine",
            type=click.Choice(["local", "dask"]),
            default="local",
            show_default=True,
            help="Processes of this machine, or a Dask cluster (extra [dask]).",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Running Dask scheduler, e.g. tcp://host:8786; without it, one is started here.",
        ),
        click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="Stop at an unusable event, or skip it and list it in the manifest.",
        ),
        click.option(
            "--split",
            default=str(SplitRule()),
            show_default=True,
            metavar="RULE",
            help="Shares of train/valid/test, or event ids: train=0-799,valid=800-899,test=900-999.",
        ),
        click.option(
            "--format",
            "file_format",
            type=click.Choice(["parquet", "hdf5"]),
            default="parquet",
            show_default=True,
            help="Of the data files.",
        ),
        click.option(
            "--events-per-shard",
            type=click.IntRange(1),
            help="Events per data file.  [default: a 16th of the split, at most 32]",
        ),
        click.option(
            "--overwrite", is_flag=True, help="Replace an existing dataset of another configuration."
        ),
        json_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def point_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that define columns and select points."""
    function = click.option(
        "--select",
        multiple=True,
        metavar="EXPRESSION",
        help='Keep the points where it holds, e.g. "abs(eta) < 2.5 and pt > 0.5"; may be repeated.',
    )(function)
    return click.option(
        "--define",
        multiple=True,
        metavar="NAME=EXPRESSION",
        help='New column, e.g. "dxy [mm] = hypot(x, y)"; may be repeated.',
    )(function)


def report_build(built: BuiltDataset, title: str, json_path: Path | None) -> None:
    """Print what a build did, and write it as JSON on request."""
    _print_summary(built.summary, title)
    write_json(json_path, _as_json(built.summary))


def _print_summary(summary: BuildSummary, title: str) -> None:
    n_clouds = max(summary.n_clouds, 1)
    n_pairs = summary.n_positives + summary.n_negatives
    rows: list[tuple[object, object, object]] = [
        ("events", summary.n_events, ""),
        ("clouds", summary.n_clouds, ""),
        ("points", summary.n_points, round(summary.n_points / n_clouds)),
    ]
    if summary.n_particles is not None:
        rows.append(("particles", summary.n_particles, round(summary.n_particles / n_clouds)))
    if n_pairs:
        rows.append(("pairs", n_pairs, round(n_pairs / n_clouds)))
    if summary.n_dropped:
        rows.append(("points dropped by a cut", summary.n_dropped, round(summary.n_dropped / n_clouds)))
    rows.append(("size", format_bytes(summary.n_bytes), format_bytes(summary.n_bytes / n_clouds)))
    rows.append(("skipped events", len(summary.skipped), ""))
    print_table(f"{title} in {summary.out}", ("", "total", "per cloud"), rows)
    for entry in summary.skipped[:5]:
        reason = name_flags(entry.reason, click.get_current_context().command)
        console.print(f"skipped event {entry.event_id}: {reason}", highlight=False, markup=False)
    if len(summary.skipped) > 5:
        console.print(f"… and {len(summary.skipped) - 5} more: see dataset.json", highlight=False)
    empty = [split for split, n_clouds in summary.clouds_by_split.items() if not n_clouds]
    if empty:
        console.print(_describe_empty(empty, summary.n_events), highlight=False, soft_wrap=True)
    if summary.was_finished:
        console.print("nothing to do: the dataset exists, from the same files and configuration")
    elif summary.n_resumed:
        console.print(f"resumed: {summary.n_resumed} data files were there already", highlight=False)


def _describe_empty(empty: list[str], n_events: int) -> str:
    """Explain which splits are empty, what needs them, and how to fill them."""
    events = "1 event" if n_events == 1 else f"{n_events} events"
    return (
        f"note: no clouds in {' and '.join(empty)} ({events} in all): training needs train and valid, "
        "eval needs test; --split divides events otherwise, for instance --split 0/0/100 for test alone"
    )


def _as_json(summary: BuildSummary) -> dict[str, object]:
    content = {field.name: getattr(summary, field.name) for field in dataclasses.fields(summary)}
    return {**content, "skipped": [entry.model_dump() for entry in summary.skipped]}
