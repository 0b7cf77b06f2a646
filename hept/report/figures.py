"""The report's pictures: numbers of a run in, figures out."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.pictures.canvas import (
    ACCENT,
    INK,
    REFERENCE,
    SIGNAL,
    new_figure,
    new_figure_with_counts,
    share_view,
)
from hepdata.pictures.panels import draw_groups, draw_pileup, name_by_majority
from hepdata.schema import Target
from hept.evaluation.scoring import PROPERTIES, bin_rates
from hept.metrics.binned_rate import BinnedRate
from hept.metrics.classification import Classification
from hept.metrics.track_score import TrackScore
from hept.objectives.classification import select_scored
from hept.report.definitions import name_metric
from hept.report.pictures import draw_loss, draw_precision_recall, draw_roc
from hept.tracks.finder import Clustering, find_tracks

_RATE_COLORS = {"efficiency": ACCENT, "fake_rate": SIGNAL, "duplicate_rate": REFERENCE}


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


def draw_efficiencies(score: TrackScore) -> Figure:
    """Double-majority efficiency, fakes and duplicates against every known property, above the counts behind.

    Error bars are Clopper–Pearson intervals of one standard deviation.
    """
    binned = bin_rates(score)
    figure, panels = new_figure_with_counts(len(binned))
    for (panel, counts), (variable, (edges, rates)) in zip(panels, binned.items(), strict=True):
        for (name, color), shift in zip(_RATE_COLORS.items(), (-0.15, 0.0, 0.15), strict=True):
            _draw_rate(panel, rates[name], edges, color, shift=shift, label=name.replace("_", " "))
        panel.set_ylim(0, 1.05)
        above = "" if variable == "pt" else f"; efficiency above {score.cuts.pt_min:g} GeV"
        label = PROPERTIES[variable]
        panel.set_title(f"double majority{above}", loc="left", fontsize=10)
        for name, entries in (("efficiency", "particles"), ("fake_rate", "tracks")):
            n_all = rates[name].n_all
            counts.stairs(
                n_all, edges, color=_RATE_COLORS[name], label=f"{n_all.sum():,} {entries}", linewidth=1.4
            )
        counts.set_ylim(0, None)
        counts.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        counts.set_ylabel("count")
        counts.set_xlabel(label)
        counts.legend(frameon=False, fontsize=8)
    panels[0][0].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def _draw_rate(
    panel: Axes, rate: BinnedRate, edges: NDArray[np.floating], color: str, *, shift: float, label: str
) -> None:
    """One marker per bin with its interval; `shift`, in bin widths, separates the bars of different rates."""
    is_filled = rate.n_all > 0
    centre = (edges[:-1] + (0.5 + shift) * np.diff(edges))[is_filled]
    value, (low, high) = rate.value[is_filled], (end[is_filled] for end in rate.interval())
    panel.stairs(rate.value, edges, color=color, linewidth=1.0, alpha=0.45)
    panel.errorbar(
        centre, value, [value - low, high - value], fmt="o", markersize=3, color=color, label=label, capsize=2
    )


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
    found = name_by_majority(find_tracks(out.cpu().double().numpy(), columns, clustering), particle)
    is_right = (particle == found)[is_shown & (particle != 0)]
    right = f" ({100 * is_right.mean():.0f} % of these hits with their particle)" if len(is_right) else ""
    figure, panels = new_figure(2)
    title = "true tracks" if target.pt is None else f"true tracks, pT > {pt_shown} GeV"
    for panel, group, heading in (
        (panels[0], particle, title),
        (panels[1], found, f"found tracks{right}"),
    ):
        draw_groups(panel, eta, phi, np.where(is_shown, group, 0), title=heading, joined_along=outwards)
    share_view(panels)
    return figure


def draw_scored_event(out: Tensor, batch: Batch, target: Target) -> Figure:
    """Truth and score of the scored points of one cloud, side by side."""
    eta, phi, label = (batch.columns[name].cpu().numpy() for name in ("eta", "phi", target.label))
    pt = np.ones(len(eta)) if target.pt is None else batch.columns[target.pt].cpu().numpy()
    is_scored = select_scored(batch, target).cpu().numpy()
    truth = np.where(is_scored, label.astype(float), np.nan)
    score = np.where(is_scored, out.reshape(-1).cpu().double().sigmoid().numpy(), np.nan)
    name = target.label_names[1]
    figure, panels = new_figure(2)
    draw_pileup(panels[0], eta, phi, pt, truth, title=f"{target.scored}: truth", colorbar=name)
    draw_pileup(panels[1], eta, phi, pt, score, title="the model's score", colorbar="score")
    share_view(panels)
    return figure


def draw_quality(curves: dict[str, Classification], title: str) -> Figure:
    """Precision against recall, and the ROC curve, with the areas under them."""
    figure, panels = new_figure(2)
    draw_precision_recall(
        panels[0],
        {
            f"{name}: average precision {one.auc:.3f}": (one.precision, one.recall)
            for name, one in curves.items()
        },
        title=title,
    )
    draw_roc(
        panels[1],
        {
            f"{name}: ROC AUC {one.roc_auc:.3f}": (one.recall, one.false_positive_rate)
            for name, one in curves.items()
        },
        title="true against false positive rate",
    )
    return figure
