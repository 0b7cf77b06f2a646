"""Tables and figures as files: Markdown to read, CSV for programs, PNG for slides."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hepdata.pictures.canvas import ACCENT, FAINT, INK, REFERENCE, SIGNAL, new_figure, save_figure
from hepdata.storage.atomic import disk_errors, write_atomically
from hept.paper.comparison.comparison import Findings
from hept.paper.comparison.paper_tables import Cell, ResultTable
from hept.paper.systems.catalog import find_system

COLORS = (SIGNAL, ACCENT, INK, REFERENCE, "#edae49")


def write_tables(findings: Findings, tables: Sequence[ResultTable], out: Path) -> list[Path]:
    """Write `compare.md`, a CSV and a PNG for each table, and the two figures.

    Raises:
        JobError: No space, or no permission.
    """
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    paths = [out / "compare.md"]
    with write_atomically(paths[0]) as file:
        file.write(to_markdown(tables).encode())
    for table in tables:
        paths.append(write_csv(table, out / f"{table.name}.csv"))
        if table.name not in ("accuracy", "scaling"):
            paths.append(save_figure(draw_table(table), out / f"{table.name}.png"))
    if findings.accuracy:
        paths.append(save_figure(draw_accuracy(findings, tables), out / "accuracy.png"))
    if findings.scaling:
        paths.append(save_figure(draw_scaling(findings), out / "scaling.png"))
    return paths


def to_markdown(tables: Sequence[ResultTable]) -> str:
    """All tables in one document."""
    parts = ["# Comparison"]
    for table in tables:
        lines = [f"## {table.title}", ""]
        lines.append("| " + " | ".join(table.header) + " |")
        lines.append("|" + "|".join("---" if i == 0 else "---:" for i in range(len(table.header))) + "|")
        lines += ["| " + " | ".join(format_cell(cell) for cell in row) + " |" for row in table.rows]
        lines += ["", *(f"- {note}" for note in table.notes)]
        parts.append("\n".join(lines).rstrip())
    return "\n\n".join(parts) + "\n"


def format_cell(cell: Cell) -> str:
    """A number with its significant digits, or a dash for a missing value."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell).replace("|", "\\|")


def write_csv(table: ResultTable, path: Path) -> Path:
    """Write the table with all digits; missing values are empty cells."""
    with disk_errors(path), path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.header)
        writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return path


def draw_table(table: ResultTable) -> Figure:
    """Draw the table as a picture, each column as wide as its longest cell."""
    cells = [list(table.header), *([format_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(len(table.header))]
    inches = max(0.085 * sum(widths), 0.09 * len(table.title), 4.0)
    figure, (panel,) = new_figure(panel_size=(inches, 0.6 + 0.27 * len(cells)))
    panel.axis("off")
    panel.set_xlim(0, sum(widths))
    panel.set_ylim(len(cells), -0.2)
    panel.set_title(table.title, loc="left", fontsize=11, color=INK)
    panel.axhline(0.95, color=INK, linewidth=0.8)
    for line, row in enumerate(cells):
        right = 0.0
        for column, (text, width) in enumerate(zip(row, widths, strict=True)):
            right += width
            is_first = column == 0
            panel.text(
                right - width if is_first else right,
                line + 0.5,
                text,
                ha="left" if is_first else "right",
                va="center",
                fontsize=9,
                weight="bold" if line == 0 else "normal",
                color=INK,
            )
    return figure


def draw_accuracy(findings: Findings, tables: Sequence[ResultTable]) -> Figure:
    """Draw scores as bars, published scores as markers."""
    names = [name for name in findings.settings.models if name in findings.accuracy]
    names += [name for name in findings.accuracy if name not in names]
    figure, (panel,) = new_figure(panel_size=(7.0, 1.2 + 0.28 * len(names)))
    scores = [100 * findings.accuracy[name][findings.metric] for name in names]
    colors = [SIGNAL if name == "hept" else ACCENT if "khept" in name else REFERENCE for name in names]
    panel.barh(range(len(names)), scores, color=colors, height=0.7)
    labels = [find_system(name).label for name in names]
    published = {str(row[0]): row[2] for table in tables if table.name == "accuracy" for row in table.rows}
    marks = [
        (value, row) for row, label in enumerate(labels) if isinstance(value := published.get(label), float)
    ]
    if marks:
        panel.plot(*zip(*marks, strict=True), "D", color=INK, markersize=5, label="paper")
        panel.legend(frameon=False)
    panel.set_yticks(range(len(names)), labels)
    panel.invert_yaxis()
    panel.set_xlabel(findings.metric_label)
    panel.set_title(f"{findings.points_per_cloud:,.0f} points per cloud", loc="left", fontsize=11, color=INK)
    return figure


def draw_scaling(findings: Findings) -> Figure:
    """Draw time and memory of inference and training against the number of points (paper, Fig. 5)."""
    figure, panels = new_figure(4, panel_size=(4.2, 3.6))
    what = [
        ("test_ms", "inference, ms"),
        ("test_gb", "inference, GB"),
        ("train_ms", "training, ms"),
        ("train_gb", "training, GB"),
    ]
    for panel, (key, label) in zip(panels, what, strict=True):
        _draw_curves(panel, findings, key)
        panel.set_title(label, loc="left", fontsize=11, color=INK)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def _draw_curves(panel: Axes, findings: Findings, key: str) -> None:
    for (name, curve), color in zip(findings.scaling.items(), COLORS, strict=False):
        # A growth below one memory page is measured as 0, which a logarithmic axis cannot show.
        shown = [(found["points"], found[key]) for found in curve if found[key] > 0]
        panel.plot(
            [points for points, _ in shown],
            [value for _, value in shown],
            "o-",
            color=color,
            markersize=3,
            label=find_system(name).label,
        )
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xlabel("points")
    panel.grid(color=FAINT, linewidth=0.4)
