"""A folder of runs as one page: every run below it enters, `index.html` leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hepdata.errors import InputError
from hepdata.storage.atomic import write_atomically
from hept.report.compare_runs import draw_histories
from hept.report.definitions import name_metric
from hept.report.html_page import Link, Page
from hept.runs.folder import RunFolder
from hept.settings.differences import find_nearest_preset

FILE = "index.html"
# With more runs, curves cannot be distinguished.
MOST_CURVES = 8


@dataclass(frozen=True)
class RunEntry:
    """One run of a folder.

    Attributes:
        path: The run folder.
        task: Task of the dataset.
        changed: Settings that differ from the nearest preset, and its name.
        epochs: Epochs in its table.
        metric: Name of the validation metric; "" if it was not validated.
        best: Its best value; None likewise.
        dataset: Where the dataset was.
        modified: When the table was last written, UTC.
    """

    path: Path
    task: str
    changed: str
    epochs: int
    metric: str
    best: float | None
    dataset: str
    modified: str


def index_runs(folder: Path) -> tuple[Path, list[RunEntry]]:
    """Write `index.html` into a folder of runs; see `hept.index_runs`."""
    entries = sorted(_find_runs(folder), key=lambda entry: entry.modified, reverse=True)
    if not entries:
        raise InputError(
            folder,
            found="no runs",
            expected="a folder with run folders below it",
            remedy="check the path, or train first with hept-train fit",
        )
    page = Page(f"Runs in {folder}")
    page.add_table(
        ("run", "best (validation)", "metric", "epochs", "task", "dataset", "settings", "last written (UTC)"),
        [_row(entry, folder) for entry in entries],
    )
    curves = {
        os.path.relpath(entry.path, folder): RunFolder(entry.path).read_rows("metrics")
        for entry in entries[:MOST_CURVES]
        if entry.task == entries[0].task
    }
    page.add_section("Training", f"The newest runs for {entries[0].task}.")
    page.add_figure(draw_histories(curves), "Training loss and validation metric by epoch.")
    with write_atomically(folder / FILE) as file:
        file.write(page.render().encode())
    return folder / FILE, entries


def _find_runs(folder: Path) -> Iterator[RunEntry]:
    for description in sorted(folder.rglob("run.json")):
        run = RunFolder(description.parent)
        try:
            config, about = run.read_config(), run.read_description()
            rows = run.read_rows("metrics")
        except InputError:
            # A run that cannot be read is left out; the others are still shown.
            continue
        names = [n for n in (rows[0] if rows else []) if n.startswith("valid_") and n != "valid_loss"]
        values = [float(row[names[0]]) for row in rows] if names else []
        nearest = find_nearest_preset(config)
        table = description.parent / "metrics.csv"
        written = (table if table.exists() else description).stat().st_mtime
        yield RunEntry(
            path=description.parent,
            task=config.task,
            changed=_describe_changes(*nearest) if nearest else "",
            epochs=int(rows[-1]["epoch"]) if rows else 0,
            metric=names[0].removeprefix("valid_") if names else "",
            best=max(values, default=None),
            dataset=str(about.get("dataset", "")),
            modified=datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        )


def _describe_changes(preset: str, changes: dict[str, list[object]]) -> str:
    return ", ".join([preset, *(f"{name}={values[1]}" for name, values in changes.items())])


def _row(entry: RunEntry, folder: Path) -> tuple[object, ...]:
    name = os.path.relpath(entry.path, folder)
    report = entry.path / "report.html"
    shown = Link(name, os.path.relpath(report, folder)) if report.exists() else name
    best = "–" if entry.best is None else f"{entry.best:.4g}"
    metric = name_metric(entry.metric) if entry.metric else ""
    return shown, best, metric, entry.epochs, entry.task, entry.dataset, entry.changed, entry.modified
