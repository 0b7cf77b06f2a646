"""The experiment as a figure and as a CSV file."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hepdata.pictures.canvas import ACCENT, FAINT, INK, REFERENCE, SIGNAL, new_figure
from hept.paper.theory.experiment import METHODS, Approximation, ExperimentResult

COLORS = dict(zip(METHODS, (REFERENCE, ACCENT, SIGNAL), strict=True))
# Below this the expectation is smaller than one missed pair among all pairs, and draws cannot show it.
LEAST_ERROR = 1e-10


def draw_tradeoff(result: ExperimentResult) -> Figure:
    """Draw error against operations: all budgets on the left; up to n², on a linear axis, on the right."""
    figure, (wide, narrow) = new_figure(2)
    full = float(result.config.n_points) ** 2
    for panel in (wide, narrow):
        _draw_methods(panel, result)
        panel.axvline(full, color=FAINT, zorder=0)
        panel.axhline(result.no_attention_error, color=FAINT, linestyle=":", zorder=0)
        panel.set_yscale("log")
        panel.set_ylim(LEAST_ERROR, 1.5)
        panel.set_xlabel("operations")
    wide.set_xscale("log")
    wide.set_ylabel("mean squared error of the kernel")
    wide.set_title(f"n = {result.config.n_points:,} points, all budgets", loc="left", fontsize=11, color=INK)
    wide.text(full, 1.6, "n²", ha="center", color=INK, fontsize=9)
    wide.text(wide.get_xlim()[0], result.no_attention_error * 1.2, " no attention", color=INK, fontsize=8)
    narrow.set_xlim(0, full)
    narrow.set_title("budgets below n², on a linear axis", loc="left", fontsize=11, color=INK)
    wide.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def _draw_methods(panel: Axes, result: ExperimentResult) -> None:
    for method in METHODS:
        found = result.of_method(method)
        color = COLORS[method]
        panel.plot([one.flops for one in found], [one.error for one in found], color=color, label=method)
        # A logarithmic axis cannot show an error of zero.
        drawn = [(one.drawn_flops, one.drawn_error) for one in found if one.drawn_error and one.drawn_flops]
        panel.plot(
            [flops for flops, _ in drawn],
            [error for _, error in drawn],
            "o",
            color=color,
            markersize=3,
            label=f"{method}, drawn",
        )
        if method == "RFF":
            variance = [one.error - result.truncation_error for one in found]
            panel.plot(
                [one.flops for one in found],
                variance,
                "--",
                color=color,
                linewidth=1,
                label="RFF without truncation of the kernel (1/D)",
            )


def write_csv(result: ExperimentResult, path: Path) -> Path:
    """Write one line for every best approximation."""
    names = [field.name for field in dataclasses.fields(Approximation)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(one) for one in result.best)
    return path
