"""`report.html`: a run folder and its dataset enter, one self-contained page leaves."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hepdata.schema import Target
from hepdata.storage.atomic import write_atomically
from hept.devices.choice import Precision
from hept.evaluation.inference import Answer
from hept.metrics.classification import Classification
from hept.metrics.cleaning import tabulate_weights
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel
from hept.model.weights import load_model
from hept.objectives.objective import make_objective
from hept.report.cleaning import add_cleaning
from hept.report.definitions import explain, name_metric
from hept.report.figures import (
    draw_curves,
    draw_efficiencies,
    draw_embedded_event,
    draw_quality,
    draw_scored_event,
)
from hept.report.html_page import Link, Page
from hept.report.residuals import add_residuals
from hept.report.results import Results, collect_results
from hept.report.view import FILE as VIEW
from hept.report.view import write_view
from hept.runs.folder import BEST, RunFolder
from hept.settings.differences import find_nearest_preset

FILE = "report.html"
# Of the run folder, for readers of the page.
FILES = ("config.yaml", "run.json", "metrics.csv", "steps.csv", "clustering.json", BEST)
EFFICIENCY_CAPTION = (
    "Efficiency, fake and duplicate rate against pT, η and the distance from the beam at which the particle "
    "begins, with 68 % Clopper–Pearson intervals; below, how many particles and tracks each bin has. Tracks "
    "of noise are in no bin; what is outside the axes is not drawn."
)
CURVE_CAPTION = "Precision against recall, and true against false positive rate, on this split."
CURVE_HEADER = ("curve", name_metric("auc"), name_metric("roc_auc"), "made from")


def write_report(
    run: Path,
    dataset: Dataset,
    *,
    split: str = "test",
    n_events: int = 2,
    tune_clouds: int = 0,
    device: str = "auto",
    precision: Precision | None = None,
    progress: Progress | None = None,
) -> Path:
    """Evaluate a run's best weights on a split and write its `report.html`; see `hept.write_report`."""
    trained = load_model(run).on(device, precision)
    results = collect_results(
        trained, run, dataset, split, n_events=n_events, tune_clouds=tune_clouds, progress=progress
    )
    page = Page(f"HEPT {trained.task}: {run.name}")
    page.add_section(
        "Run", f"Best weights of {run}, evaluated on the {split} split of {dataset.root.location}."
    )
    page.add_table(("", ""), _facts(RunFolder(run), dataset))
    side_by_side = {str(row[0]) for row in tabulate_weights(results.after.metrics)}
    page.add_section("Metrics", "Each with its definition.")
    page.add_table(
        ("metric", "value", "definition"),
        [
            (name_metric(name), value, explain(name))
            for name, value in results.after.metrics.items()
            if name.rpartition("_")[0] not in side_by_side
        ],
    )
    _add_pictures(page, results, RunFolder(run), dataset)
    _add_configuration(page, trained, run)
    with write_atomically(run / FILE) as file:
        file.write(page.render().encode())
    return run / FILE


def _add_pictures(page: Page, results: Results, folder: RunFolder, dataset: Dataset) -> None:
    target, trained, tracks = find_target(dataset), results.trained, results.after.tracks
    page.add_section("Training")
    metric = make_objective(target, trained.config.loss).metric
    page.add_figure(draw_curves(folder.read_rows("metrics"), metric), "Loss and validation metric by epoch.")
    if tracks is not None and target.pt is not None and dataset.schema.has_column(target.eta or ""):
        page.add_section("Tracks", f"Found by {results.clustering.name}.")
        page.add_figure(draw_efficiencies(tracks), EFFICIENCY_CAPTION)
    if results.after.residuals is not None:
        add_residuals(page, results.after.residuals)
    if results.curves:
        page.add_section("Precision and recall")
        page.add_table(CURVE_HEADER, _tabulate_curves(results.curves, "pairs" if tracks else "points"))
        page.add_figure(draw_quality(results.curves, name_curve(target, trained)), CURVE_CAPTION)
    if results.after.cleaning is not None:
        add_cleaning(page, results.after.cleaning)
    page.add_section("Events")
    if results.after.events:
        write_view(
            folder.path / VIEW, page.title, results.after.events, trained, dataset.schema, results.clustering
        )
        page.add_links(Link("Look at these events in 3-D, with all their columns", VIEW))
    for answer in results.after.events:
        event = int(answer[1].event_id[0])
        figure = draw_event(results, answer, target)
        page.add_figure(figure, f"Event {event}: truth on the left, the model on the right.")


def _add_configuration(page: Page, trained: TrainedModel, run: Path) -> None:
    """All settings, those that differ from the nearest preset first, and links to the files of the run."""
    nearest = find_nearest_preset(trained.config)
    changed = nearest is not None and bool(nearest[1])
    text = "" if nearest is None else f"As in the preset {nearest[0]}{', except:' if changed else '.'}"
    page.add_section("Configuration", text)
    if nearest is not None and changed:
        rows = [(name, *map(str, values)) for name, values in nearest[1].items()]
        page.add_table(("setting", nearest[0], "this run"), rows)
    page.add_code(trained.config.to_yaml())
    page.add_links(*(Link(name, name) for name in FILES if (run / name).exists()))


def draw_event(results: Results, answer: Answer, target: Target) -> Figure:
    """Truth and the model's answer for one cloud, side by side."""
    if results.trained.is_embedding:
        return draw_embedded_event(*answer, target, results.clustering)
    return draw_scored_event(*answer, target)


def name_curve(target: Target, trained: TrainedModel) -> str:
    """Title of the precision–recall curve of a model."""
    return f"pairs by distance: {target.scored}" if trained.is_embedding else target.scored


def _tabulate_curves(curves: dict[str, Classification], entries: str) -> list[tuple[object, ...]]:
    return [
        (name, one.auc, f"{one.roc_auc:.4g}", f"{one.n_points:,} {entries}, {one.n_positives:,} positive")
        for name, one in curves.items()
    ]


def _facts(folder: RunFolder, dataset: Dataset) -> list[tuple[str, str]]:
    description = folder.read_description()
    versions, clouds = description.get("versions"), description.get("clouds")
    rows = folder.read_rows("metrics")
    return [
        ("dataset", str(dataset.root.location)),
        ("fingerprint", str(description.get("fingerprint", ""))[:16]),
        ("clouds", ", ".join(f"{n} {split}" for split, n in _items(clouds))),
        ("seed", str(description.get("seed", ""))),
        ("epochs", rows[-1]["epoch"] if rows else "0"),
        ("versions", ", ".join(f"{name} {version}" for name, version in _items(versions))),
    ]


def _items(entry: object) -> list[tuple[str, object]]:
    return list(entry.items()) if isinstance(entry, dict) else []
