"""Common style of all pictures: figure size, colours, and writing of files.

Figures are made without pyplot, so that drawing needs no display and keeps no global state.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically

INK = "#222222"
FAINT = "#c9ced6"
SIGNAL = "#d1495b"
REFERENCE = "#8d99ae"
ACCENT = "#00798c"


class Picture(Figure):
    """A figure that is shown in notebooks without pyplot."""

    def _repr_png_(self) -> bytes:
        sink = io.BytesIO()
        self.savefig(sink, dpi=100)
        return sink.getvalue()


def new_figure(
    n_panels: int = 1, *, panel_size: tuple[float, float] = (6.4, 4.8)
) -> tuple[Figure, list[Axes]]:
    """An empty figure with `n_panels` panels side by side."""
    figure = Picture(figsize=(panel_size[0] * n_panels, panel_size[1]), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, n_panels, squeeze=False)[0]
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK)
    return figure, list(panels)


def new_figure_with_counts(n_panels: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """An empty figure with panels side by side, each above a low one that shares its x axis."""
    figure = Picture(figsize=(4.4 * n_panels, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, n_panels, squeeze=False, sharex="col", height_ratios=(3, 1))
    for panel in panels.ravel():
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK)
    return figure, list(zip(panels[0], panels[1], strict=True))


def new_grid(
    n_panels: int, *, title: str = "", n_columns: int = 4, panel_size: tuple[float, float] = (3.4, 2.6)
) -> tuple[Figure, list[Axes]]:
    """An empty figure with `n_panels` panels in rows of `n_columns`, under one title."""
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    figure = Picture(figsize=(panel_size[0] * n_columns, panel_size[1] * n_rows + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK, labelsize=8)
    for panel in panels[n_panels:]:
        panel.set_visible(False)
    if title:
        figure.suptitle(title, color=INK, fontsize=11)
    return figure, list(panels[:n_panels])


def share_view(panels: Sequence[Axes]) -> None:
    """Give all panels the axis limits of the first, so that positions can be compared."""
    for panel in panels[1:]:
        panel.set_xlim(panels[0].get_xlim())
        panel.set_ylim(panels[0].get_ylim())


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture and return its path; the folder is made where it is missing.

    Raises:
        InputError: The name has the suffix of no kind of picture.
        JobError: The file cannot be written.
    """
    kind = path.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise InputError(
            path,
            found=f"the suffix {path.suffix!r}",
            expected=f"a picture: {', '.join(sorted(known))}",
            remedy="name it .png, for instance",
        )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path, sync_content=False, sync_name=False) as file:
        figure.savefig(file, format=kind, dpi=150, metadata={"Software": None} if kind == "png" else None)
    return path
