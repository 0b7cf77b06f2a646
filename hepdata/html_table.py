"""Numbers and tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Cell = str | int | float | None


def format_cell(cell: Cell) -> str:
    """A number with thousands separators or four digits; a dash for None."""
    if cell is None:
        return "–"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if 1e3 <= abs(cell) < 1e9 else f"{cell:.4g}"
    return str(cell)


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A titled table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(format_cell(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<h5>{html.escape(title)}</h5><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
