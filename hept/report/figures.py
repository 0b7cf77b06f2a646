"""The report's pictures: numbers of a run in, figures out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL, new_figure, share_view
from hepdata.pictures.event import draw_groups, draw_pileup, name_by_majority
from hepdata.schema import Target
from hept.classification_objective import select_scored
from hept.evaluation.clustering import Clustering, cluster
from hept.metrics.classification import Classification
from hept.metrics.tracks import Rates
from hept.pictures import draw_loss, draw_precision_recall
from hept.report.definitions import name_metric

PT_EDGES = np.array([0.0, 0.3, 0.5, 0.9, 1.3, 2.0, 3.0, 5.0, 10.0])
ETA_EDGES = np.linspace(-4, 4, 17)


def draw_curves(rows: list[dict[str, str]], metric: str) -> Figure:
    """Losses and the validation metric against the epoch."""
    figure, panels = new_figure(2)
    epochs = [float(row["epoch"]) for row in rows]
    curves = {
        label: (epochs, _read_column(rows, name))
        for label, name in (("training", "train_loss"), ("validation", "valid_loss"))
    }
    draw_loss(panels[0], curves, title="loss")
    panels[1].plot(epochs, _read_column(rows, f"valid_{metric}"), color=SIGNAL, marker="o", markersize=3)
    panels[1].set_xlabel("epoch")
    panels[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[1].set_title(f"validation: {name_metric(metric)}", loc="left", fontsize=11, color=INK)
    return figure


def _read_column(rows: list[dict[str, str]], name: str) -> list[float]:
    # A table with a damaged header has the column under another name.
    return [float(row.get(name, "nan")) for row in rows]


def draw_efficiencies(rates: Rates) -> Figure:
    """Double-majority efficiency, fake and duplicate rate against pT and η."""
    figure, panels = new_figure(2)
    for panel, variable, edges, label in (
        (panels[0], "pt", PT_EDGES, "particle pT [GeV]"),
        (panels[1], "eta", ETA_EDGES, "particle η (efficiency: pT > 0.9 GeV)"),
    ):
        pt_min = 0.9 if variable == "eta" else 0.0
        binned = rates.against(variable, edges, "double_majority", pt_min)  # type: ignore[arg-type]
        for name, color in (("efficiency", ACCENT), ("fake_rate", SIGNAL), ("duplicate_rate", REFERENCE)):
            panel.stairs(binned[name], edges, color=color, label=name.replace("_", " "), linewidth=1.6)
        panel.set_ylim(0, 1.05)
        panel.set_xlabel(label)
        panel.set_title(
            f"double majority against {'pT' if variable == 'pt' else 'η'}", loc="left", fontsize=11
        )
    panels[0].legend(frameon=False)
    return figure


def draw_embedded_event(
    out: Tensor, batch: Batch, target: Target, clustering: Clustering, *, pt_shown: float = 0.5
) -> Figure:
    """True and found tracks of one cloud, side by side; soft particles are faint."""
    columns: dict[str, NDArray[Any]] = {name: v.cpu().numpy() for name, v in batch.columns.items()}
    eta, phi, particle = columns["eta"], columns["phi"], columns[target.label]
    is_shown = np.ones(len(eta), dtype=bool) if target.pt is None else columns[target.pt] > pt_shown
    outwards = None
    if {"r", "z"} <= set(columns):
        outwards = columns["r"].astype(np.float64) + np.abs(columns["z"].astype(np.float64))
    found = name_by_majority(cluster(out.double().cpu().numpy(), **asdict(clustering)), particle)
    figure, panels = new_figure(2)
    title = "true tracks" if target.pt is None else f"true tracks, pT > {pt_shown} GeV"
    draw_groups(panels[0], eta, phi, np.where(is_shown, particle, 0), title=title, joined_along=outwards)
    draw_groups(
        panels[1], eta, phi, np.where(is_shown, found, 0), title="found tracks", joined_along=outwards
    )
    share_view(panels)
    return figure


def draw_scored_event(out: Tensor, batch: Batch, target: Target) -> Figure:
    """Truth and score of the scored points of one cloud, side by side."""
    eta, phi, label = (batch.columns[name].cpu().numpy() for name in ("eta", "phi", target.label))
    pt = np.ones(len(eta)) if target.pt is None else batch.columns[target.pt].cpu().numpy()
    is_scored = select_scored(batch, target).cpu().numpy()
    truth = np.where(is_scored, label.astype(float), np.nan)
    score = np.where(is_scored, out.reshape(-1).double().sigmoid().cpu().numpy(), np.nan)
    name = target.label_names[1]
    figure, panels = new_figure(2)
    draw_pileup(panels[0], eta, phi, pt, truth, title=f"{target.scored}: truth", colorbar=name)
    draw_pileup(panels[1], eta, phi, pt, score, title="the model's score", colorbar="score")
    share_view(panels)
    return figure


def draw_quality(curves: dict[str, Classification], title: str) -> Figure:
    """Precision against recall."""
    figure, (panel,) = new_figure()
    draw_precision_recall(
        panel,
        {f"{name} (area {one.auc:.3f})": (one.precision, one.recall) for name, one in curves.items()},
        title=title,
    )
    return figure
