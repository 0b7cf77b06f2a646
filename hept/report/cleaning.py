"""The report's section on pileup mitigation: jets, missing pT and scores by weight."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL, new_figure
from hepdata.schema import PARTICLE_CLASSES
from hept.metrics.binned_rate import BinnedRate
from hept.metrics.classification import classify
from hept.metrics.cleaning import WEIGHTS, Cleaning, tabulate_weights
from hept.report.definitions import explain
from hept.report.page import Page

_COLORS = dict(zip(WEIGHTS, (INK, SIGNAL, ACCENT, REFERENCE, "#b8860b"), strict=True))
_PT_EDGES = np.array([20.0, 30, 45, 70, 110, 200])
_ETA_EDGES = np.array([-5.0, -2.5, -1.25, 0, 1.25, 2.5, 5])
_PARTICLE_PT = np.array([0.0, 0.5, 0.9, 1.5, 2.5, 5, 1e4])


def add_cleaning(page: Page, cleaning: Cleaning) -> None:
    """Add tables and figures of an account over a split."""
    n = len(cleaning.n_collisions)
    page.add_section(
        "Pileup mitigation",
        f"{n} events, |η| < 5, against the leading collision alone; anti-kT jets. The weights are those of a "
        "perfect model in the same scope (truth), of the model, of PUPPI, of charged-hadron subtraction "
        "(chs), and 1 (none).",
    )
    rows = [(*row, explain(row[0])) for row in tabulate_weights(cleaning.result())]
    page.add_table(("", *WEIGHTS, "definition"), rows)
    if cleaning.has_jets and n:
        for figure in ("response", "resolution", "efficiency", "fake_rate"):
            page.add_figure(
                _draw_jets(cleaning, figure),
                f"Jets (R = 0.4): {figure.replace('_', ' ')} against the jet's pT and η and the number of "
                "collisions, with errors of one standard deviation; numbers are the jets of each bin.",
            )
    if n:
        page.add_table(
            ("collisions", "events", "weight", "missing-pT resolution", "scale"), _tabulate_met(cleaning)
        )
        page.add_figure(
            _draw_scores(cleaning), "Weights of scored particles by truth, and observed rate against weight."
        )
        page.add_table(
            ("scored particles", "points", "leading", "average precision, model", "PUPPI"), _rows(cleaning)
        )


def _collision_edges(cleaning: Cleaning) -> NDArray[np.float64]:
    """Thirds of the events by their number of collisions."""
    edges = np.unique(np.quantile(cleaning.n_collisions, [0, 1 / 3, 2 / 3, 1]))
    edges[-1] += 1e-6
    return edges if len(edges) > 1 else np.array([edges[0] - 1, edges[0] + 1])


def _draw_jets(cleaning: Cleaning, figure: str) -> Figure:
    drawing, panels = new_figure(3)
    axes = (("pt", _PT_EDGES), ("eta", _ETA_EDGES), ("n_collisions", _collision_edges(cleaning)))
    for panel, (variable, edges) in zip(panels, axes, strict=True):
        for name in WEIGHTS:
            _draw_line(panel, cleaning, name, variable, edges, figure)
        panel.set_xlabel({"pt": "pT [GeV]", "eta": "η", "n_collisions": "collisions"}[variable])
    panels[0].set_ylabel(figure.replace("_", " "))
    panels[0].legend(frameon=False, fontsize=8)
    return drawing


def _draw_line(
    panel: Axes, cleaning: Cleaning, name: str, variable: str, edges: NDArray[np.floating], figure: str
) -> None:
    bins = cleaning.jets[name, 0.4].against(variable, edges)
    value = np.array([one[figure] for one in bins])
    counted = "n_found" if figure == "fake_rate" else "n_true"
    n = np.array([one[counted] for one in bins]).astype(np.int64)
    error = np.zeros((2, len(bins)))
    if figure in ("efficiency", "fake_rate"):
        low, high = BinnedRate(np.round(np.nan_to_num(value) * n).astype(np.int64), n).interval()
        error = np.nan_to_num(np.stack([value - low, high - value])).clip(min=0)
    elif figure == "resolution":
        error[:] = [one["resolution_error"] for one in bins]
    else:
        # Of a median: 1.25 σ/√n.
        error[:] = [
            1.25 * one["resolution"] * one["response"] / np.sqrt(max(one["n_true"] * one["efficiency"], 1))
            for one in bins
        ]
    centre = (edges[:-1] + edges[1:]) / 2
    panel.errorbar(centre, value, error, fmt="o-", markersize=3, capsize=2, color=_COLORS[name], label=name)
    if name == "model":
        for x, y, count in zip(centre, value, n.tolist(), strict=True):
            if np.isfinite(y):
                panel.annotate(f"{count}", (x, y), fontsize=7, xytext=(2, 4), textcoords="offset points")


def _tabulate_met(cleaning: Cleaning) -> list[tuple[object, ...]]:
    edges, n = _collision_edges(cleaning), np.array(cleaning.n_collisions)
    rows: list[tuple[object, ...]] = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):  # noqa: RUF007
        chosen = (n >= low) & (n < high)
        for name in WEIGHTS if chosen.any() else ():
            found = cleaning.missing_pt(name, chosen)
            error = found["resolution"] / np.sqrt(4 * chosen.sum())
            text = f"{found['resolution']:.2f} ± {error:.2f} GeV"
            rows.append((f"{low:.0f} to {high:.0f}", int(chosen.sum()), name, text, f"{found['scale']:.3f}"))
    return rows


def _draw_scores(cleaning: Cleaning) -> Figure:
    figure, panels = new_figure(2)
    is_leading = cleaning.pooled("is_leading")
    for name in ("model", "puppi"):
        for flag, style in ((True, "-"), (False, ":")):
            label = f"{name}, {'leading' if flag else 'pileup'} ({int((is_leading == flag).sum()):,})"
            counts, edges = np.histogram(cleaning.pooled(name)[is_leading == flag], np.linspace(0, 1, 31))
            panels[0].stairs(counts, edges, color=_COLORS[name], linestyle=style, label=label)
        curve = cleaning.calibration(name)
        low, high = curve.rate.interval()
        value, filled = curve.rate.value, curve.rate.n_all > 0
        bars = np.stack([value - low, high - value])[:, filled].clip(min=0)
        label = f"{name}: calibration error {curve.error:.3f}"
        panels[1].errorbar(
            curve.mean[filled], value[filled], bars, fmt="o-", markersize=3, color=_COLORS[name], label=label
        )
    panels[0].set_yscale("log")
    panels[0].set_xlabel("weight")
    panels[1].plot([0, 1], [0, 1], color=REFERENCE, linewidth=0.8)
    panels[1].set_xlabel("mean weight")
    panels[1].set_ylabel("part of the leading collision")
    for panel in panels:
        panel.legend(frameon=False, fontsize=8)
    return figure


def _rows(cleaning: Cleaning) -> list[tuple[object, ...]]:
    """Average precision in bins of pT and |η| and by species."""
    pt, eta, is_leading = (cleaning.pooled(name) for name in ("pt", "eta", "is_leading"))
    selections = {
        f"pT {low:g} to {high:g} GeV": (pt >= low) & (pt < high) for low, high in pairwise(_PARTICLE_PT)
    }
    for low, high in ((0.0, 1.5), (1.5, 2.5), (2.5, 5.0)):
        selections[f"|η| {low:g} to {high:g}"] = (np.abs(eta) >= low) & (np.abs(eta) < high)
    if "pid_class" in cleaning.particles[0]:
        species = cleaning.pooled("pid_class")
        selections |= {name: species == number for number, (name, _) in enumerate(PARTICLE_CLASSES)}
    rows: list[tuple[object, ...]] = []
    for name, chosen in selections.items():
        if chosen.any():
            areas = [classify(cleaning.pooled(w)[chosen], is_leading[chosen]).auc for w in ("model", "puppi")]
            rows.append((name, int(chosen.sum()), int(is_leading[chosen].sum()), *areas))
    return rows
