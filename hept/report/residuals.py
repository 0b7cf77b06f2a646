"""The report's section on fitted tracks: residuals and pulls enter, a table and pictures leave."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hepdata.pictures.canvas import ACCENT, REFERENCE, SIGNAL, new_grid
from hept.metrics.missing_pt import resolution
from hept.metrics.resolution import QUANTITIES, Residuals
from hept.report.html_page import Page

_PT_EDGES = (0.9, 1.2, 1.6, 2.2, 3.0, 5.0, 10.0, 30.0)
_PT_TICKS = (1, 2, 5, 10, 20)
_PULL_EDGES = np.linspace(-6, 6, 49)
_HEADER = ("quantity", "median residual", "resolution", "median pull", "pull width")
_N_DRAWS = 50


def add_residuals(page: Page, residuals: Residuals) -> None:
    """Add the resolution and the pulls of the helices of matched tracks."""
    n = len(residuals.pt)
    page.add_section(
        "Fitted tracks",
        f"{n:,} targets matched by double majority, against the helix of the true particle where it is "
        "nearest to the beam. Resolution and pull width are half the central 68 %; the error of a fit comes "
        "from its hits alone, all of which count alike.",
    )
    page.add_table(_HEADER, [(name, *(f"{value:.3g}" for value in row)) for name, *row in residuals.rows()])
    if n:
        page.add_figure(
            _draw(residuals),
            "Resolution against the true pT, with errors from resampling tracks; pulls, and a normal "
            "distribution of width 1 for comparison.",
        )


def _draw(residuals: Residuals) -> Figure:
    figure, panels = new_grid(2 * len(QUANTITIES), n_columns=len(QUANTITIES), panel_size=(3.0, 2.6))
    below = panels[len(QUANTITIES) :]
    centres, bell = (_PULL_EDGES[:-1] + _PULL_EDGES[1:]) / 2, np.diff(_PULL_EDGES)
    bell = bell * np.exp(-(centres**2) / 2) / np.sqrt(2 * np.pi)
    for panel, lower, (name, label) in zip(panels, below, QUANTITIES.items(), strict=False):
        inside = np.digitize(residuals.pt, _PT_EDGES) - 1
        for at, (low, high) in enumerate(pairwise(_PT_EDGES)):
            values = residuals.residual[name][inside == at]
            if len(values) > 1:
                panel.errorbar(
                    np.sqrt(low * high),
                    resolution(values),
                    _draw_error(values),
                    [[np.sqrt(low * high) - low], [high - np.sqrt(low * high)]],
                    fmt="o",
                    markersize=3,
                    color=SIGNAL,
                )
        panel.set_xscale("log")
        panel.set_xlim(_PT_EDGES[0], _PT_EDGES[-1])
        panel.set_xticks(_PT_TICKS, [str(tick) for tick in _PT_TICKS])
        panel.set_xticks([], minor=True)
        panel.set_yscale("log")
        panel.set_xlabel("pT [GeV]", fontsize=8)
        panel.set_title(f"resolution of {label}", loc="left", fontsize=9)
        pulls = residuals.pull[name]
        pulls = pulls[np.isfinite(pulls)]
        counts, _ = np.histogram(np.clip(pulls, *_PULL_EDGES[[0, -1]]), _PULL_EDGES)
        lower.stairs(counts, _PULL_EDGES, color=ACCENT)
        lower.plot(centres, bell * len(pulls), color=REFERENCE, linewidth=1)
        lower.set_xlabel(f"pull of {label.split('[')[0].strip()}", fontsize=8)
        lower.set_title(f"width {resolution(pulls):.2f}", loc="left", fontsize=9)
    return figure


def _draw_error(values: NDArray[np.float64]) -> float:
    drawn = np.random.default_rng(0).choice(values, (_N_DRAWS, len(values)))
    return float(np.std([resolution(row) for row in drawn]))
