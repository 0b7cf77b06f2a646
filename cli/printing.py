"""Tables in the terminal: right-aligned numbers under a title."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.table import Table

from hepdata.console import SafeConsole
from hepdata.plain_text import printable

console = SafeConsole()


def print_lines(text: str) -> None:
    """Print text as it is, without control characters."""
    click.echo(printable(text))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a header; the first column is left-aligned, the others right."""
    # Not as the table's title, which rich wraps at the width of the table.
    console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
    table = Table()
    cells = [[format_value(value) for value in row] for row in rows]
    # Where the terminal is narrow, heads and numbers wrap before the names of rows.
    longest = max((len(row[0]) for row in cells), default=0)
    for position, name in enumerate(header):
        is_first = position == 0
        table.add_column(name, justify="left" if is_first else "right", no_wrap=is_first and longest <= 26)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def format_value(value: object) -> str:
    """A number with thousands separators or four significant digits; anything else as it is."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return str(value)


def format_bytes(size: float) -> str:
    """A file size in the largest unit that keeps it above one.

    >>> format_bytes(1_500_000)
    '1.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
