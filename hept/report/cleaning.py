"""The report's section on pileup mitigation: jets and missing pT by weight, then particles."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL, new_grid
from hept.metrics.binned_rate import BinnedRate
from hept.metrics.cleaning import Cleaning, tabulate_weights
from hept.metrics.jets import PT_MIN
from hept.report.definitions import explain
from hept.report.html_page import Page
from hept.report.scored_particles import add_particles

COLORS = {"truth": INK, "model": SIGNAL, "puppi": ACCENT, "chs": REFERENCE, "none": "#b8860b"}
_AXES = {
    "pt": ("pT [GeV]", np.array([20.0, 30, 45, 70, 110, 200])),
    "eta": ("η", np.array([-5.0, -2.5, -1.25, 0, 1.25, 2.5, 5])),
}
_JET_FIGURES = {
    "response": "response",
    "resolution": "resolution",
    "efficiency": "efficiency",
    "fake_rate": "fake rate",
    "mass_bias": "mass − true [GeV]",
    "mass_resolution": "mass resolution [GeV]",
    "constituents": "constituents / true",
}
_EVENTS_PER_BIN = 20
# The axes fit these weights; points of the others may lie outside.
_SHOWN = ("truth", "model", "puppi")
_MET_FIGURES = {
    "parallel": "along [GeV]",
    "perpendicular": "across [GeV]",
    "scale": "scale",
    "tail": "wrong by > 30 GeV",
}


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
    page.add_table(("", *cleaning.weights, "definition"), rows)
    if not n:
        return
    for radius in PT_MIN if cleaning.has_jets else ():
        page.add_figure(
            _draw_jets(cleaning, radius),
            f"Jets with R = {radius} and pT above {PT_MIN[radius]:g} GeV against pT and η of the jet and the "
            "number of collisions, estimated from charged pileup; bars are one standard deviation, below are "
            "the jets of each bin. Of chs and none, some lie beyond the axes.",
        )
    page.add_figure(
        _draw_missing_pt(cleaning),
        "Missing pT against the number of collisions: resolution along and across the true one, scale, and "
        "part of the events with an error above 30 GeV; bars are one standard deviation.",
    )
    add_particles(page, cleaning)


def _collision_edges(cleaning: Cleaning) -> NDArray[np.float64]:
    """Up to four bins of as many events each, and of at least 20."""
    n_bins = min(max(len(cleaning.n_collisions) // _EVENTS_PER_BIN, 1), 4)
    edges = np.unique(np.quantile(cleaning.n_collisions, np.linspace(0, 1, n_bins + 1)))
    edges[-1] += 1e-6
    return edges if len(edges) > 1 else np.array([edges[0] - 1, edges[0] + 1])


def _draw_jets(cleaning: Cleaning, radius: float) -> Figure:
    drawing, panels = new_grid(3 * (len(_JET_FIGURES) + 1), n_columns=3, panel_size=(3.6, 2.2))
    axes = _AXES | {"n_collisions": ("collisions", _collision_edges(cleaning))}
    for column, (variable, (label, edges)) in enumerate(axes.items()):
        below = panels[column::3]
        for place, name in enumerate(cleaning.weights):
            bins = cleaning.jets[name, radius].against(variable, edges)
            at = _place(edges, place, len(cleaning.weights))
            for panel, figure in zip(below, _JET_FIGURES, strict=False):
                value, error = _with_error(bins, figure)
                _draw_points(panel, at, value, error, name)
                if name == _SHOWN[-1]:
                    _fix_view(panel)
            below[-1].stairs([one["n_found"] for one in bins], edges, color=COLORS[name], linewidth=1)
        below[-1].stairs([one["n_true"] for one in bins], edges, color=INK, linestyle=":", label="true")
        below[-1].set_yscale("symlog", linthresh=1)
        below[-1].set_xlabel(label)
        if column == 0:
            for panel, text in zip(below, (*_JET_FIGURES.values(), "jets"), strict=True):
                panel.set_ylabel(text, fontsize=8)
            below[-1].legend(frameon=False, fontsize=7)
    _add_legend(drawing, panels[0])
    return drawing


def _add_legend(drawing: Figure, panel: Axes, title: str | None = None) -> None:
    """Name the weights above all panels, where no point can lie."""
    handles, labels = panel.get_legend_handles_labels()
    drawing.legend(
        handles,
        labels,
        title=title,
        fontsize=8,
        title_fontsize=8,
        loc="outside upper center",
        ncols=len(labels),
        frameon=False,
    )


def _fix_view(panel: Axes) -> None:
    """Fix the axes to what is drawn so far, with a margin above."""
    low, high = panel.get_ylim()
    panel.set_ylim(low, high + 0.5 * (high - low))


def _with_error(bins: list[dict[str, float]], figure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A figure of jets in bins, and the lengths of its bars down and up."""
    value = np.array([one[figure] for one in bins])
    if f"{figure}_error" in bins[0]:
        return value, np.tile([one[f"{figure}_error"] for one in bins], (2, 1))
    n = np.array([one["n_found" if figure == "fake_rate" else "n_true"] for one in bins]).astype(np.int64)
    return value, _bars(np.round(np.nan_to_num(value) * n).astype(np.int64), n)


def _bars(n_passed: NDArray[np.int64], n_all: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lengths of the bars of a rate down and up."""
    rate = BinnedRate(n_passed, n_all)
    low, high = rate.interval()
    return np.asarray(np.stack([rate.value - low, high - rate.value]).clip(min=0))


def _place(edges: NDArray[np.floating], place: int, n: int) -> NDArray[np.float64]:
    """Positions of one line's markers in each bin, side by side so that error bars do not overlap."""
    return np.asarray(edges[:-1] + np.diff(edges) * (0.5 + 0.12 * (place - (n - 1) / 2)))


def _draw_points(
    panel: Axes, at: NDArray[np.floating], value: NDArray[np.floating], error: NDArray[np.floating], name: str
) -> None:
    known = np.isfinite(value)
    panel.errorbar(
        at[known],
        value[known],
        np.nan_to_num(error[:, known]),
        fmt="o-",
        markersize=2.5,
        linewidth=1,
        capsize=1.5,
        color=COLORS[name],
        label=name,
    )


def _draw_missing_pt(cleaning: Cleaning) -> Figure:
    drawing, panels = new_grid(4, n_columns=4, panel_size=(3.2, 2.8))
    edges, n_collisions = _collision_edges(cleaning), np.array(cleaning.n_collisions)
    chosen = [(n_collisions >= low) & (n_collisions < high) for low, high in pairwise(edges)]
    n = np.array([int(one.sum()) for one in chosen])
    for place, name in enumerate(cleaning.weights):
        bins = [cleaning.missing_pt(name, one) for one in chosen]
        at = _place(edges, place, len(cleaning.weights))
        for panel, figure in zip(panels, _MET_FIGURES, strict=True):
            value = np.array([one[figure] for one in bins])
            error = np.tile(value / np.sqrt(2 * n.clip(min=1)), (2, 1))
            if figure == "tail":
                error = _bars(np.round(np.nan_to_num(value) * n).astype(np.int64), n)
            elif figure == "scale":
                error = np.tile([one["scale_error"] for one in bins], (2, 1))
            _draw_points(panel, at, value, error, name)
    for panel, label in zip(panels, _MET_FIGURES.values(), strict=True):
        panel.set_title(label, loc="left", fontsize=9)
        panel.set_xlabel("collisions")
    _add_legend(drawing, panels[0], f"{', '.join(map(str, n))} events")
    return drawing
