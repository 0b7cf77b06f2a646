"""`report.html`: a run folder and its dataset enter, one self-contained page leaves."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hepdata.storage.atomic import write_atomically
from hept.evaluation.clustering import Clustering
from hept.evaluation.evaluator import embed, evaluate, open_split
from hept.evaluation.reconstruction import reconstruct
from hept.evaluation.tuning import load_clustering
from hept.metrics.classification import Classification, classify
from hept.metrics.puppi import weigh_puppi
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel, forget_training
from hept.model.weights import load_model
from hept.objectives.classification import select_scored
from hept.objectives.objective import make_objective
from hept.objectives.pairs import select_points
from hept.report.definitions import explain, name_metric
from hept.report.figures import (
    draw_curves,
    draw_efficiencies,
    draw_embedded_event,
    draw_quality,
    draw_scored_event,
)
from hept.report.page import Page
from hept.runs.folder import RunFolder

FILE = "report.html"
# Pairs of hits for the precision–recall curve come from this many clouds.
CLOUDS_IN_CURVE = 3


def write_report(
    run: Path, dataset: Dataset, *, split: str = "test", n_events: int = 2, progress: Progress | None = None
) -> Path:
    """Evaluate a run's best weights on a split and write `report.html` into its folder.

    Raises:
        InputError: Not a run folder, or the dataset does not fit.
    """
    trained, target = load_model(run), find_target(dataset)
    folder = RunFolder(run)
    metrics = evaluate(trained, dataset, split, progress=progress)
    page = Page(f"HEPT {trained.task}: {run.name}")
    page.add_section(
        "Run", f"Best weights of {run}, evaluated on the {split} split of {dataset.place.location}."
    )
    page.add_table(("", ""), _facts(folder, dataset))
    if trained.is_embedding:
        clustering = load_clustering(run) or Clustering()
        found = reconstruct(trained, dataset, split, clustering)
        metrics |= found.summary()
    page.add_section("Metrics", "Each with its definition.")
    page.add_table(
        ("metric", "value", "definition"),
        [(name_metric(name), value, explain(name)) for name, value in metrics.items()],
    )
    page.add_section("Training")
    metric = make_objective(target, trained.config.loss).metric
    page.add_figure(draw_curves(folder.read_rows("metrics"), metric), "Loss and validation metric by epoch.")
    if trained.is_embedding and target.pt is not None and dataset.schema.has_column(target.eta or ""):
        page.add_section("Tracks", f"Found by {_name(clustering)}.")
        page.add_figure(
            draw_efficiencies(found.rates), "Efficiency, fake and duplicate rate against pT and η."
        )
    page.add_section("Precision and recall")
    caption = "Precision against recall on this split."
    title = f"pairs by distance: {target.scored}" if trained.is_embedding else target.scored
    page.add_figure(draw_quality(_quality(trained, dataset, split), title), caption)
    page.add_section("Events")
    loader = open_split(trained, dataset, split)
    for out, batch in islice(embed(trained.network, loader), n_events):
        if trained.is_embedding:
            figure = draw_embedded_event(out, batch, target, clustering)
        else:
            figure = draw_scored_event(out, batch, target)
        page.add_figure(figure, f"Event {int(batch.event_id[0])}: truth on the left, the model on the right.")
    page.add_section("Configuration")
    page.add_code(trained.config.to_yaml())
    with write_atomically(run / FILE) as file:
        file.write(page.render().encode())
    return run / FILE


def _name(clustering: Clustering) -> str:
    scale = f"eps {clustering.eps:.3g}, " if clustering.method == "dbscan" else ""
    return f"{clustering.method} ({scale}at least {clustering.min_points} hits)"


def _facts(folder: RunFolder, dataset: Dataset) -> list[tuple[str, str]]:
    description = folder.read_description()
    versions, clouds = description.get("versions"), description.get("clouds")
    rows = folder.read_rows("metrics")
    return [
        ("dataset", str(dataset.place.location)),
        ("fingerprint", str(description.get("fingerprint", ""))[:16]),
        ("clouds", ", ".join(f"{n} {split}" for split, n in _items(clouds))),
        ("seed", str(description.get("seed", ""))),
        ("epochs", rows[-1]["epoch"] if rows else "0"),
        ("versions", ", ".join(f"{name} {version}" for name, version in _items(versions))),
    ]


def _items(entry: object) -> list[tuple[str, object]]:
    return list(entry.items()) if isinstance(entry, dict) else []


def _quality(trained: TrainedModel, dataset: Dataset, split: str) -> dict[str, Classification]:
    """Precision–recall of the untrained and the trained model, and of PUPPI-like weights beside cleaning."""
    untrained = forget_training(trained, seed=trained.config.seed)
    score = _pair_scores if trained.is_embedding else _point_scores
    curves = {
        name: classify(*score(model, dataset, split))
        for name, model in (("untrained", untrained), ("trained", trained))
    }
    if "cleaning" in find_target(dataset).figures:
        curves["PUPPI-like"] = classify(*_puppi_scores(trained, dataset, split))
    return curves


_Scores = tuple[NDArray[np.float64], NDArray[np.bool_]]


def _point_scores(trained: TrainedModel, dataset: Dataset, split: str) -> _Scores:
    target, scores, labels = find_target(dataset), [], []
    for out, batch in embed(trained.network, open_split(trained, dataset, split)):
        is_scored = select_scored(batch, target)
        scores.append(out.reshape(-1)[is_scored].double().cpu().numpy())
        labels.append((batch.columns[target.label] != 0)[is_scored].cpu().numpy())
    return np.concatenate(scores), np.concatenate(labels)


def _puppi_scores(trained: TrainedModel, dataset: Dataset, split: str) -> _Scores:
    scores, labels = [], []
    for batch in open_split(trained, dataset, split):
        c = {name: values.numpy() for name, values in batch.columns.items()}
        weight = weigh_puppi(c["eta"], c["phi"], c["pt"], c["charge"], c["is_leading"])
        scores.append(weight[c["is_scored"]])
        labels.append(c["is_leading"][c["is_scored"]])
    return np.concatenate(scores), np.concatenate(labels)


def _pair_scores(trained: TrainedModel, dataset: Dataset, split: str) -> _Scores:
    """Every pair of a hit above 0.9 GeV with another hit of its cloud: near should mean same particle."""
    target, nearness, is_same = find_target(dataset), [], []
    for out, batch in islice(embed(trained.network, open_split(trained, dataset, split)), CLOUDS_IN_CURVE):
        x, particle = out.double().cpu().numpy(), batch.columns[target.label].cpu().numpy()
        anchors = np.flatnonzero(select_points(batch, target, 0.9).cpu().numpy())[:1000]
        squared = np.square(x).sum(1)
        distance = squared[anchors, None] + squared - 2 * x[anchors] @ x.T
        is_other = anchors[:, None] != np.arange(len(x))
        nearness.append(-distance[is_other])
        is_same.append((particle[anchors, None] == particle)[is_other])
    return np.concatenate(nearness), np.concatenate(is_same)
