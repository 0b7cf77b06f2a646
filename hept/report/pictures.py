"""Pictures of a training: the loss along the way, and at its end precision–recall and ROC curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL

# More points do not change the picture.
_MOST_POINTS = 2000


def draw_loss(
    panel: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str
) -> None:
    """Draw loss against epoch, one line for each of `curves` (name to epochs and losses)."""
    for (name, (epochs, losses)), color in zip(
        curves.items(), (ACCENT, SIGNAL, REFERENCE, INK), strict=False
    ):
        panel.plot(
            epochs, losses, color=color, label=name, marker="o" if len(epochs) < 40 else "", markersize=3
        )
    panel.set_xlabel("epoch")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylabel("loss")
    panel.set_title(title, loc="left", fontsize=11, color=INK)
    panel.legend(frameon=False, loc="upper right")


def draw_precision_recall(
    panel: Axes,
    curves: Mapping[str, tuple[NDArray[np.floating], NDArray[np.floating]]],
    *,
    title: str,
) -> None:
    """Draw precision against recall, one line for each of `curves` (name to precision and recall).

    Recall ascends. The first curve is the reference (an untrained model), drawn muted. Where there is nothing
    to find (no positives, or no points at all), the panel says so.
    """
    _draw_curves(panel, {name: (recall, precision) for name, (precision, recall) in curves.items()})
    panel.set_xlabel("recall")
    panel.set_ylabel("precision")
    panel.set_title(title, loc="left", fontsize=11, color=INK)


def draw_roc(
    panel: Axes, curves: Mapping[str, tuple[NDArray[np.floating], NDArray[np.floating]]], *, title: str
) -> None:
    """Draw true against false positive rate, one line for each of `curves` (name to both, which ascend)."""
    _draw_curves(panel, {name: (false, true) for name, (true, false) in curves.items()})
    panel.set_xlabel("false positive rate")
    panel.set_ylabel("true positive rate")
    panel.set_title(title, loc="left", fontsize=11, color=INK)


def _draw_curves(
    panel: Axes, curves: Mapping[str, tuple[NDArray[np.floating], NDArray[np.floating]]]
) -> None:
    """Draw y against x, which ascends, in the unit square."""
    drawable = {name: xy for name, xy in curves.items() if all(_is_drawable(values) for values in xy)}
    if not drawable:
        text = "no curve: these events hold nothing to find"
        panel.text(0.5, 0.5, text, ha="center", va="center", color=REFERENCE, transform=panel.transAxes)
    colors = dict(zip(curves, (REFERENCE, SIGNAL, ACCENT, INK), strict=False))
    for name, (x, y) in drawable.items():
        shown = np.searchsorted(x, np.linspace(0, 1, _MOST_POINTS - 1)).clip(max=len(x) - 1)
        shown = np.unique([*shown, len(x) - 1])
        panel.plot(x[shown], y[shown], color=colors[name], label=name, linewidth=1.8)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1.02)
    if panel.lines:
        panel.legend(frameon=False, loc="best")


def _is_drawable(values: NDArray[np.floating]) -> bool:
    return len(values) > 0 and bool(np.isfinite(values).all())
