"""Events in the η–φ plane: hits coloured by the group they belong to, particles by where they come from.

Axes: N points.
"""

from __future__ import annotations

import colorsys

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from hepdata.pictures.canvas import FAINT, INK, SIGNAL

_GOLDEN_RATIO = 0.618033988749895


def group_colors(group: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N, 3) colours: equal for equal groups, far apart for most others, the same in every picture."""
    names, which = np.unique(group, return_inverse=True)
    # A multiplicative hash keeps a particle's hue when it appears in another picture among other particles.
    mixed = (names.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    hues = (mixed.astype(np.float64) * _GOLDEN_RATIO) % 1.0
    values = 0.62 + 0.30 * ((mixed % np.uint64(3)).astype(np.float64) / 2)
    palette = np.array([colorsys.hsv_to_rgb(h, 0.85, v) for h, v in zip(hues, values, strict=True)])
    return palette.reshape(-1, 3)[which]


def name_by_majority(found: NDArray[np.integer], truth: NDArray[np.integer]) -> NDArray[np.int64]:
    """Rename every found group after the particle that most of its points belong to.

    A correct grouping then has the colours of the truth, and a wrongly grouped point stands out.

    Args:
        found: (N,) group numbers; negative means ungrouped and stays so.
        truth: (N,) particle ids.

    Returns:
        (N,) particle id of the majority of each point's group, −1 for ungrouped points. Ties go to the
        smallest id.
    """
    named = np.full(len(found), -1, dtype=np.int64)
    grouped = np.flatnonzero(found >= 0)
    if grouped.size == 0:
        return named
    _, group = np.unique(found[grouped], return_inverse=True)
    particles, particle = np.unique(truth[grouped], return_inverse=True)
    counts = np.zeros((group.max() + 1, len(particles)), dtype=np.int64)
    np.add.at(counts, (group, particle), 1)
    named[grouped] = particles[counts.argmax(axis=1)][group]
    return named


def draw_groups(
    panel: Axes,
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    group: NDArray[np.integer],
    *,
    title: str,
    joined_along: NDArray[np.floating] | None = None,
) -> None:
    """Draw the hits of one event; points of a group share a colour, group numbers ≤ 0 are faint.

    Args:
        panel: Where to draw.
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth.
        group: (N,) group numbers; 0 is noise, −1 ungrouped.
        title: Heading of the panel.
        joined_along: (N,) a thin line joins the points of a group in this order, e.g. outwards.
    """
    loose = group <= 0
    panel.scatter(eta[loose], phi[loose], s=3, color=FAINT, linewidths=0, rasterized=True)
    colors = group_colors(group)
    if joined_along is not None:
        _join(panel, eta, phi, group, colors, joined_along)
    panel.scatter(eta[~loose], phi[~loose], s=7, c=colors[~loose], linewidths=0, rasterized=True)
    _label(panel, title)


def draw_pileup(
    panel: Axes,
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    pt: NDArray[np.floating],
    highlight: NDArray[np.floating],
    *,
    title: str,
    colorbar: str = "",
) -> None:
    """Draw the particles of one event: area by pT, colour from faint (0) to signal (1) by `highlight`.

    Args:
        panel: Where to draw.
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth.
        pt: (N,) transverse momentum in GeV.
        highlight: (N,) truth or score between 0 and 1; NaN points are drawn as faint dots.
        title: Heading of the panel.
        colorbar: Label of a colour bar, "" for none.
    """
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("leading", ["#9fb3c8", "#f2c14e", SIGNAL])
    aside = np.isnan(highlight)
    area = np.clip(12.0 * pt, 6, 220)
    panel.scatter(eta[aside], phi[aside], s=5, color=FAINT, linewidths=0, rasterized=True)
    # Highlighted points are drawn last, on top of the others.
    order = np.flatnonzero(~aside)[np.argsort(highlight[~aside], kind="stable")]
    points = panel.scatter(
        eta[order],
        phi[order],
        s=area[order],
        c=highlight[order],
        cmap=shades,
        vmin=0,
        vmax=1,
        alpha=0.85,
        linewidths=0,
    )
    if colorbar and panel.figure is not None:
        panel.figure.colorbar(points, ax=panel, label=colorbar, shrink=0.85)
    _label(panel, title)


def _join(
    panel: Axes,
    eta: NDArray[np.floating],
    phi: NDArray[np.floating],
    group: NDArray[np.integer],
    colors: NDArray[np.float64],
    along: NDArray[np.floating],
) -> None:
    from matplotlib.collections import LineCollection

    order = np.lexsort((along, group))
    first, second = order[:-1], order[1:]
    # No line across ±π: it would cross the whole picture.
    joined = (group[first] == group[second]) & (group[first] > 0) & (np.abs(phi[first] - phi[second]) < np.pi)
    first, second = first[joined], second[joined]
    ends = np.stack([np.stack([eta[first], phi[first]], 1), np.stack([eta[second], phi[second]], 1)], 1)
    panel.add_collection(LineCollection(list(ends), colors=colors[first], linewidths=0.6, alpha=0.6))


def _label(panel: Axes, title: str) -> None:
    panel.set_title(title, color=INK, fontsize=11, loc="left")
    panel.set_xlabel("η")
    panel.set_ylabel("φ [rad]")
    panel.set_ylim(-np.pi * 1.02, np.pi * 1.02)
    panel.set_yticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["−π", "−π/2", "0", "π/2", "π"])
