"""The report's pictures of scored particles: weights, truth and kinematics in, curves in bins out.

Axes: P scored particles of all events.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hepdata.particle_classes import PARTICLE_CLASSES
from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL, new_grid
from hept.metrics.binned_rate import BinnedRate
from hept.metrics.calibration import calibrate_curve
from hept.metrics.classification import classify
from hept.metrics.cleaning import Cleaning
from hept.report.html_page import Page

_PT_EDGES = (0.0, 0.5, 0.9, 1.5, 2.5, 5.0, np.inf)
_ETA_EDGES = (0.0, 1.5, 2.5, 5.0)
_COLORS = {"model": SIGNAL, "puppi": ACCENT}
_LINES = (SIGNAL, ACCENT, "#b8860b", INK, REFERENCE, "#6a4c93", "#588157", "#bc6c25")
_N_RESAMPLED = 30
_MOST_POINTS = 500

Selections = dict[str, NDArray[np.bool_]]


def add_particles(page: Page, cleaning: Cleaning) -> None:
    """Add curves of the weights of all scored particles, and of those in bins."""
    is_leading = cleaning.pooled("is_leading")
    if not len(is_leading):
        return
    page.add_figure(
        _draw_curves({"all": np.ones(len(is_leading), dtype=bool)}, cleaning, tuple(_COLORS)),
        "Scored particles within |η| < 5: precision against recall, true against false positive rate, "
        "weights by truth, and observed rate against weight with 68 % Clopper–Pearson intervals.",
    )
    for variable, selections in _select(cleaning).items():
        page.add_figure(
            _draw_curves(selections, cleaning, ("model",)), f"The same of the model, in bins of {variable}."
        )
        page.add_figure(
            _draw_areas(selections, cleaning),
            f"Areas and calibration against {variable}: model and PUPPI. Bars are one standard deviation, of "
            "areas from resampling particles; below each bin, particles / those of the leading collision.",
        )


def _select(cleaning: Cleaning) -> dict[str, Selections]:
    """Particles in bins of pT, |η| and species, without bins that are empty."""
    pt, eta = cleaning.pooled("pt"), np.abs(cleaning.pooled("eta"))
    variables: dict[str, Selections] = {
        "pT in GeV": {
            f"{low:g}–{high:g}" if np.isfinite(high) else f"> {low:g}": (pt >= low) & (pt < high)
            for low, high in pairwise(_PT_EDGES)
        },
        "|η|": {f"{low:g}–{high:g}": (eta >= low) & (eta < high) for low, high in pairwise(_ETA_EDGES)},
    }
    if "pid_class" in cleaning.particles[0]:
        species = cleaning.pooled("pid_class")
        variables["species"] = {name: species == number for number, (name, _) in enumerate(PARTICLE_CLASSES)}
    return {
        variable: {name: chosen for name, chosen in selections.items() if chosen.any()}
        for variable, selections in variables.items()
    }


def _draw_curves(selections: Selections, cleaning: Cleaning, weights: tuple[str, ...]) -> Figure:
    drawing, panels = new_grid(4, n_columns=4, panel_size=(3.6, 3.2))
    is_leading = cleaning.pooled("is_leading")
    entries = [(weight, name, chosen) for weight in weights for name, chosen in selections.items()]
    for (weight, name, chosen), color in zip(entries, _LINES, strict=False):
        score, truth = cleaning.pooled(weight)[chosen], is_leading[chosen]
        found = classify(score, truth)
        label = f"{weight if len(weights) > 1 else name}: {len(truth):,} / {int(truth.sum()):,}"
        if len(found.recall):
            shown = np.unique(np.linspace(0, len(found.recall) - 1, _MOST_POINTS).astype(int))
            panels[0].plot(found.recall[shown], found.precision[shown], color=color, linewidth=1.2)
            panels[1].plot(found.false_positive_rate[shown], found.recall[shown], color=color, linewidth=1.2)
        panels[1].plot([], [], color=color, label=label)
        for flag, style in ((True, "-"), (False, ":")):
            counts, edges = np.histogram(score[truth == flag], np.linspace(0, 1, 26))
            panels[2].stairs(counts, edges, color=color, linestyle=style)
        _draw_calibration(panels[3], score, truth, color)
    for panel, (x, y) in zip(
        panels,
        (("recall", "precision"), ("false positive rate", "true positive rate"), ("weight", "particles")),
        strict=False,
    ):
        panel.set_xlabel(x)
        panel.set_ylabel(y)
    panels[1].legend(frameon=False, fontsize=7, title="particles / leading", title_fontsize=7)
    panels[2].set_yscale("log")
    panels[2].set_title("— leading   ··· pileup", fontsize=8)
    panels[3].plot([0, 1], [0, 1], color=REFERENCE, linewidth=0.8)
    panels[3].set_xlabel("mean weight")
    panels[3].set_ylabel("part that is leading")
    return drawing


def _draw_calibration(panel: Axes, score: NDArray[np.floating], truth: NDArray[np.bool_], color: str) -> None:
    curve = calibrate_curve(score, truth, n_bins=10)
    low, high = curve.rate.interval()
    filled = curve.rate.n_all > 0
    value = curve.rate.value
    bars = np.stack([value - low, high - value])[:, filled].clip(min=0)
    panel.errorbar(
        curve.mean[filled],
        value[filled],
        bars,
        fmt="o-",
        markersize=2.5,
        linewidth=1,
        color=color,
        label=f"error {curve.error:.3f}",
    )
    panel.legend(frameon=False, fontsize=7)


def _draw_areas(selections: Selections, cleaning: Cleaning) -> Figure:
    """Average precision, ROC area, and mean weight beside the observed rate, one marker a bin."""
    drawing, panels = new_grid(3, n_columns=3, panel_size=(4.6, 2.9))
    is_leading = cleaning.pooled("is_leading")
    at = np.arange(len(selections))
    for place, (name, color) in enumerate(_COLORS.items()):
        weight, shift = cleaning.pooled(name), 0.16 * (place - 0.5)
        areas = [_resample(weight[chosen], is_leading[chosen]) for chosen in selections.values()]
        for panel, (value, error) in zip(panels, np.array(areas).transpose(1, 2, 0), strict=False):
            known = np.isfinite(value)
            panel.errorbar(
                at[known] + shift, value[known], error[known], fmt="o", markersize=4, capsize=2, color=color
            )
        mean = [float(weight[chosen].mean()) for chosen in selections.values()]
        panels[2].plot(at + shift, mean, "o", markersize=4, color=color, label=f"mean weight, {name}")
    rate = BinnedRate(
        np.array([int(is_leading[chosen].sum()) for chosen in selections.values()]),
        np.array([int(chosen.sum()) for chosen in selections.values()]),
    )
    low, high = rate.interval()
    bars = np.stack([rate.value - low, high - rate.value]).clip(min=0)
    panels[2].errorbar(at, rate.value, bars, fmt="_", markersize=12, color=INK, capsize=2, label="leading")
    panels[2].legend(frameon=False, fontsize=7)
    names = zip(selections, rate.n_all.tolist(), rate.n_passed.tolist(), strict=True)
    labels = [f"{name}\n{n:,}\n{k:,}" for name, n, k in names]
    for panel, title in zip(panels, ("average precision", "ROC AUC", "calibration"), strict=True):
        panel.set_title(title, loc="left", fontsize=9)
        panel.set_xticks(at, labels, fontsize=7)
    return drawing


def _resample(
    weight: NDArray[np.floating], is_leading: NDArray[np.bool_]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Average precision and ROC area, each with its error."""
    found = classify(weight, is_leading)
    random = np.random.default_rng(0)
    draws = [random.integers(0, len(weight), len(weight)) for _ in range(_N_RESAMPLED)]
    drawn = np.array([(one.auc, one.roc_auc) for one in (classify(weight[d], is_leading[d]) for d in draws)])
    known = np.isfinite(drawn).all(axis=1)
    error = drawn[known].std(axis=0) if known.any() else np.zeros(2)
    return (found.auc, float(error[0])), (found.roc_auc, float(error[1]))
