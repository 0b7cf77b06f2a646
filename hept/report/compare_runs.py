"""Runs side by side: run folders enter, one page of settings, metrics with errors and curves leaves."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hepdata.loader.dataset import Dataset
from hepdata.pictures.canvas import INK, new_figure
from hepdata.progress import Progress
from hepdata.storage.atomic import disk_errors, write_atomically
from hept.devices.choice import Precision
from hept.evaluation.evaluator import SplitScores, run_for_metrics
from hept.evaluation.inference import Answer
from hept.evaluation.reconstruction import TrackFinder
from hept.evaluation.tuning import load_clustering
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel
from hept.model.weights import load_model
from hept.objectives.objective import make_objective
from hept.report.definitions import name_metric
from hept.report.html_page import Link, Page
from hept.runs.folder import RunFolder
from hept.settings.differences import list_differences

Estimate = tuple[float, float]
COLORS = ("#00798c", "#d1495b", "#edae49", "#66a182", "#2e4057", "#8d96a3", "#9b5de5", "#a44a3f")
DEFINITION = (
    "Mean over the clouds of the split, each counted once, ± its standard error; below, the mean difference "
    "to the first run over the same clouds, whose error is smaller because the same clouds are hard for all."
)


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side; all lists are in the order of `names`.

    Attributes:
        page: The HTML page.
        names: Folders of the runs.
        settings: Values of every setting that differs.
        metrics: Mean over clouds and its standard error, NaN where a run has no such figure.
        differences: Mean difference to the first run and its standard error, cloud by cloud; empty if the
            runs were evaluated on different datasets.
    """

    page: Path
    names: list[str]
    settings: dict[str, list[object]]
    metrics: dict[str, list[Estimate]]
    differences: dict[str, list[Estimate]] = field(default_factory=dict)


def compare_runs(
    runs: Sequence[Path],
    datasets: Sequence[Dataset],
    split: str,
    out: Path,
    *,
    device: str = "auto",
    precision: Precision | None = None,
    progress: Progress | None = None,
) -> RunComparison:
    """Evaluate several runs cloud by cloud, each on its own dataset; see `hept.compare_runs`."""
    configs = [RunFolder(run).read_config() for run in runs]
    tables = [
        _score_clouds(load_model(run).on(device, precision), run, dataset, split, progress)
        for run, dataset in zip(runs, datasets, strict=True)
    ]
    names = list(dict.fromkeys(name for table in tables for name in table))
    empty = np.array([math.nan])
    metrics = {name: [_estimate(table.get(name, empty)) for table in tables] for name in names}
    differences: dict[str, list[Estimate]] = {}
    if len({dataset.fingerprint for dataset in datasets}) == 1:
        shared = [name for name in names if all(name in table for table in tables)]
        differences = {
            name: [_estimate(table[name] - tables[0][name]) for table in tables] for name in shared
        }
    found = RunComparison(out, name_runs(runs), list_differences(configs), metrics, differences)
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    page = _make_page(found, runs, [dataset.root.location for dataset in datasets], split)
    with write_atomically(out) as file:
        file.write(page.render().encode())
    return found


def name_runs(runs: Sequence[Path]) -> list[str]:
    """Names of the run folders, with their parent's where two are equal."""
    short = [run.resolve().name for run in runs]
    if len(set(short)) == len(short):
        return short
    return [f"{run.resolve().parent.name}/{run.resolve().name}" for run in runs]


def _score_clouds(
    trained: TrainedModel, run: Path, dataset: Dataset, split: str, progress: Progress | None
) -> dict[str, np.ndarray]:
    """Figures of merit of every cloud, one array a figure."""
    rows: list[dict[str, float]] = [
        _score_cloud(trained, run, dataset, answer)
        for answer in run_for_metrics(trained, dataset, split, progress=progress)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _score_cloud(trained: TrainedModel, run: Path, dataset: Dataset, answer: Answer) -> dict[str, float]:
    # Further figures of a target, such as jet resolutions, mean nothing for a single event.
    target = replace(find_target(dataset), figures=())
    scores = SplitScores(make_objective(target, trained.config.loss))
    scores.add(*answer)
    found = {
        name: value
        for name, value in scores.result().items()
        if name != "n_clouds" and not name.endswith("_per_cloud")
    }
    clustering = load_clustering(run)
    if trained.is_embedding and clustering is not None:
        tracks = TrackFinder(target, clustering)
        tracks.add(*answer)
        found |= tracks.result().summary()
    return found


def _estimate(values: np.ndarray) -> Estimate:
    """Mean and standard error over the clouds that have the figure."""
    known = values[np.isfinite(values)]
    if not len(known):
        return math.nan, math.nan
    error = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else math.nan
    return float(known.mean()), error


def format_estimate(estimate: Estimate, *, sign: str = "") -> str:
    """`0.9120 ± 0.0043`, to two digits of the error; without one where there is only one cloud."""
    value, error = estimate
    if math.isnan(value):
        return "–"
    if not error > 0:
        return f"{value:{sign}.4g}" + ("" if math.isnan(error) else " ± 0")
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:{sign}.{decimals}f} ± {error:.{decimals}f}"


def _make_page(found: RunComparison, runs: Sequence[Path], datasets: Sequence[str], split: str) -> Page:
    page = Page(f"{len(runs)} runs side by side")
    links = [
        Link(name, os.path.relpath(run / "report.html", found.page.parent))
        if (run / "report.html").exists()
        else name
        for name, run in zip(found.names, runs, strict=True)
    ]
    page.add_section("Runs")
    page.add_table(
        ("run", "evaluated on"), [(link, f"{d}, {split}") for link, d in zip(links, datasets, strict=True)]
    )
    page.add_section("Settings that differ", "" if found.settings else "None.")
    if found.settings:
        page.add_table(
            ("setting", *found.names),
            [(k, *map(str, v)) for k, v in found.settings.items()],
            notes_from=len(runs) + 1,
        )
    page.add_section("Metrics", DEFINITION)
    rows: list[tuple[object, ...]] = []
    for name, values in found.metrics.items():
        rows.append((name_metric(name), *(format_estimate(value) for value in values)))
        if len(runs) > 1 and name in found.differences:
            others = (format_estimate(value, sign="+") for value in found.differences[name][1:])
            rows.append((f"… difference to {found.names[0]}", "", *others))
    page.add_table(("metric", *found.names), rows, notes_from=len(runs) + 1)
    histories = {n: RunFolder(run).read_rows("metrics") for n, run in zip(found.names, runs, strict=True)}
    page.add_section("Training")
    page.add_figure(draw_histories(histories), "Training loss and validation metric by epoch.")
    return page


def draw_histories(histories: Mapping[str, Sequence[Mapping[str, str]]]) -> Figure:
    """Training loss and validation metric of several runs against the epoch."""
    figure, panels = new_figure(2)
    columns = [name for rows in histories.values() if rows for name in rows[0]]
    validated = [name for name in columns if name.startswith("valid_") and name != "valid_loss"]
    metric = validated[0] if validated else "valid_loss"
    for panel, column in zip(panels, ("train_loss", metric), strict=True):
        for index, (name, rows) in enumerate(histories.items()):
            values = [float(row.get(column) or "nan") for row in rows]
            epochs = [float(row["epoch"]) for row in rows]
            panel.plot(epochs, values, label=name, color=COLORS[index % len(COLORS)], marker=".")
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        label = column.removeprefix("valid_")
        title = "training loss" if column == "train_loss" else f"validation: {name_metric(label)}"
        panel.set_title(title, loc="left", fontsize=11, color=INK)
    panels[0].legend(frameon=False)
    return figure
