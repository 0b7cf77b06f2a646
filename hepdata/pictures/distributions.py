"""Pictures of a whole dataset: the distribution of every feature and label, sizes, and a few events.

Clouds are read one at a time; only histograms stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset
from hepdata.pictures.canvas import ACCENT, INK, REFERENCE, SIGNAL, new_figure, new_grid, save_figure
from hepdata.pictures.cloud import draw_cloud
from hepdata.pictures.histograms import Histogram, make_histogram, whole_edges
from hepdata.progress import Progress, Silent, counting
from hepdata.schema import Schema

# Distributions of ids are meaningless.
_IDS = frozenset({"hit_id", "index_in_source"})


@dataclass(frozen=True)
class _Sizes:
    """What is counted once per cloud, particle or point."""

    points: list[int]
    hits_per_particle: list[NDArray[np.int64]]
    positives: list[NDArray[np.int64]]
    negatives: list[NDArray[np.int64]]


def plot_dataset(
    dataset: Dataset,
    out: Path,
    *,
    split: str = "train",
    max_clouds: int = 200,
    n_events: int = 3,
    progress: Progress | None = None,
) -> list[Path]:
    """Draw a dataset into PNG files; see `hepdata.plot`.

    Returns:
        The files: features.png, labels.png where there are labels, clouds.png, and one per event.
    """
    clouds = dataset[split]
    if not len(clouds):
        raise InputError(
            f"{dataset.root.location}, split {split!r}",
            found="no clouds",
            expected="at least one",
            remedy="choose another `split`",
        )
    _make_folder(out)
    chosen = np.unique(np.linspace(0, len(clouds) - 1, min(max_clouds, len(clouds))).astype(int))
    listener = progress or Silent()
    with counting(listener, "reading", len(chosen), "cloud"):
        histograms, sizes = _fill(dataset, (clouds[int(i)] for i in chosen), listener)
    note = f"{split}: {len(chosen):,} of {len(clouds):,} clouds"
    names, is_grouped = _group_names(dataset), _has_pairs_label(dataset.schema)
    files = _draw_columns(list(histograms.values()), names, is_grouped, note, out)
    files.append(_draw_sizes(sizes, note, out / "clouds.png"))
    return files + [_save_cloud(clouds[int(i)], dataset.schema, out) for i in chosen[: max(n_events, 0)]]


def _draw_columns(
    histograms: list[Histogram], names: tuple[str, ...], is_grouped: bool, note: str, out: Path
) -> list[Path]:
    files = []
    for title, is_label in (("features", False), ("labels", True)):
        kind = [histogram for histogram in histograms if histogram.column.is_label == is_label]
        if kind:
            # Labels are not drawn by label; for noise they are undefined.
            shown = names if not is_label else names[1:] if is_grouped else ("all",)
            files.append(_draw_grid(kind, shown, f"{title} · {note}", out / f"{title}.png"))
    return files


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            out,
            found=f"a path where no folder can be created ({error.strerror})",
            expected="a folder for the pictures",
            remedy="choose another `out`",
        ) from error


def _group_names(dataset: Dataset) -> tuple[str, ...]:
    label = _label_of(dataset.schema)
    return dataset.schema.target.label_names if label and dataset.schema.target else ("all",)


def _label_of(schema: Schema) -> str | None:
    """The stored label that distinguishes points."""
    label = schema.target.label if schema.target is not None else ""
    return label if schema.has_column(label) else None


def _has_pairs_label(schema: Schema) -> bool:
    return _label_of(schema) is not None and schema.target is not None and schema.target.objective == "pairs"


def _group_of(columns: Mapping[str, NDArray[Any]], label: str | None) -> NDArray[np.int64]:
    if label is None:
        return np.zeros(len(columns["eta"]), dtype=np.int64)
    return np.asarray(columns[label] != 0, dtype=np.int64)


def _fill(
    dataset: Dataset, clouds: Iterator[PointCloud], listener: Progress
) -> tuple[dict[str, Histogram], _Sizes]:
    ranges = dataset.manifest.statistics().columns
    n_groups, label = len(_group_names(dataset)), _label_of(dataset.schema)
    has_particles, target = _has_pairs_label(dataset.schema), dataset.schema.target
    ids = _IDS | {target.point_id if target else "", label if has_particles else ""}
    histograms = {
        column.name: make_histogram(column, ranges[column.name], n_groups)
        for column in dataset.schema.columns
        if column.name not in ids
    }
    sizes = _Sizes([], [], [], [])
    for cloud in clouds:
        group = _group_of(cloud.columns, label)
        for name, histogram in histograms.items():
            histogram.fill(cloud.columns[name], group)
        sizes.points.append(cloud.n_points)
        if label is not None and has_particles:
            particle = cloud.columns[label]
            sizes.hits_per_particle.append(np.unique(particle[particle != 0], return_counts=True)[1])
        for pairs, counts in ((cloud.positives, sizes.positives), (cloud.negatives, sizes.negatives)):
            if pairs is not None:
                counts.append(np.diff(pairs.ptr).astype(np.int64))
        listener.advance()
    return histograms, sizes


def _draw_grid(histograms: Sequence[Histogram], names: tuple[str, ...], title: str, path: Path) -> Path:
    figure, panels = new_grid(len(histograms), title=title)
    for panel, histogram in zip(panels, histograms, strict=True):
        _draw_histogram(panel, histogram, names)
    panels[0].legend(frameon=False, fontsize=8)
    return save_figure(figure, path)


def _draw_histogram(panel: Axes, histogram: Histogram, names: tuple[str, ...]) -> None:
    """One panel; groups are normalised each to its own number, so that shapes compare."""
    colors = (ACCENT,) if len(names) == 1 else (REFERENCE, SIGNAL)
    centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    by_group = _counts_of(histogram, names)
    for number, (name, color) in enumerate(zip(names, colors, strict=True)):
        counts = by_group[number]
        shares = counts / max(counts.sum(), 1)
        if histogram.is_bars:
            width = 0.8 / len(names)
            shift = (number - (len(names) - 1) / 2) * width
            bars = panel.bar(centres + shift, shares, width, color=color, label=name)
            if histogram.column.dtype == "bool":
                # One of the two is often too small to be seen.
                panel.bar_label(bars, [f"{share:.2%}" for share in shares], fontsize=7, color=INK)
                panel.margins(y=0.15)
        else:
            panel.stairs(shares, histogram.edges, color=color, label=name, linewidth=1.3)
    column = histogram.column
    if histogram.is_log:
        panel.set_xscale("log")
    if _spans_decades(by_group):
        panel.set_yscale("log")
    if column.dtype == "bool":
        panel.set_xticks([0, 1], ["no", "yes"])
    elif histogram.is_bars and len(centres) <= 12:
        panel.set_xticks(centres, [f"{centre:.0f}" for centre in centres])
    elif not column.dtype.startswith("float") and not histogram.is_log:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel(f"{column.name} [{column.unit}]" if column.unit else column.name, color=INK)
    panel.set_ylabel("share", color=INK)


def _counts_of(histogram: Histogram, names: tuple[str, ...]) -> NDArray[np.int64]:
    """(len(names), B): every group, the particles alone, or all points together."""
    if len(names) == len(histogram.counts):
        return histogram.counts
    if names == ("particle",):
        return histogram.counts[1:]
    return np.asarray(histogram.counts.sum(axis=0, keepdims=True))


def _spans_decades(counts: NDArray[np.int64]) -> bool:
    """Whether the bins of any group differ so much that small ones would not be seen on a linear axis."""
    return any(row.any() and row.max() > 30 * row[row > 0].min() for row in np.atleast_2d(counts))


def _draw_sizes(sizes: _Sizes, note: str, path: Path) -> Path:
    drawn: list[tuple[str, NDArray[Any]]] = [("points per cloud", np.array(sizes.points))]
    for name, parts in (
        ("hits per particle", sizes.hits_per_particle),
        ("positive pairs per point", sizes.positives),
        ("negative pairs per point", sizes.negatives),
    ):
        if parts:
            drawn.append((name, np.concatenate(parts)))
    figure, panels = new_figure(len(drawn), panel_size=(4.2, 3.4))
    for panel, (name, values) in zip(panels, drawn, strict=True):
        counts, edges = np.histogram(values, bins=whole_edges(values))
        panel.stairs(counts, edges, fill=True, color=ACCENT)
        panel.set_xlabel(name, color=INK)
        panel.set_ylabel("count", color=INK)
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        # Leave room for a tick on either side: a single number would otherwise get fractional ticks.
        panel.set_xlim(edges[0] - 1, edges[-1] + 1)
        if _spans_decades(counts):
            panel.set_yscale("log")
        else:
            panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_title(note, fontsize=9, loc="left", color=INK)
    return save_figure(figure, path)


def _save_cloud(cloud: PointCloud, schema: Schema, out: Path) -> Path:
    sector = f"-sector-{cloud.sector}" if cloud.sector else ""
    return save_figure(draw_cloud(cloud, schema), out / f"event-{cloud.event_id:09d}{sector}.png")
