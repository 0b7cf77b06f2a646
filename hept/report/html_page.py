"""A self-contained HTML page: headings, tables and pictures in, text out."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0
1rem; } h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid #ddd;
} table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .9rem .25rem 0;
vertical-align: top; } td.number { text-align: right; font-variant-numeric: tabular-nums; } tr {
border-bottom: 1px solid #eee; } td.note { color: #666; font-size: .85rem; } img { max-width: 100%; height:
auto; } figure { margin: 1rem 0; } figcaption { color: #666; font-size: .9rem; } pre { background: #f6f7f9;
padding: .8rem; overflow-x: auto; font-size: .85rem; }
/* On a narrow screen a definition stands below its name and value. */
@media (max-width: 40rem) { table:has(td.note:nth-child(3)) { &, tbody { display: block; }
thead { display: none; } tr { display: flex; flex-wrap: wrap; } .number { margin-left: auto; }
td.note { flex-basis: 100%; } } }
"""


@dataclass(frozen=True)
class Link:
    """Text of a cell that leads to a file next to the page."""

    text: str
    file: str

    def render(self) -> str:
        """As HTML."""
        return f'<a href="{quote(self.file)}">{escape(self.text)}</a>'


class Page:
    """A page that grows section by section."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = [f"<h1>{escape(title)}</h1>"]

    def add_section(self, heading: str, text: str = "") -> None:
        """Begin a section, with a paragraph where there is one."""
        self._parts.append(f"<h2>{escape(heading)}</h2>")
        if text:
            self._parts.append(f"<p>{escape(text)}</p>")

    def add_table(
        self, header: Sequence[str], rows: Sequence[Sequence[object]], *, notes_from: int = 2
    ) -> None:
        """A table; numbers with four digits, right-aligned; columns from `notes_from` on are small print."""
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = "".join(
            "<tr>"
            + "".join(_cell(value, is_note=place >= notes_from) for place, value in enumerate(row))
            + "</tr>"
            for row in rows
        )
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def add_code(self, text: str) -> None:
        """Preformatted text."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def add_links(self, *links: Link) -> None:
        """A line of links."""
        self._parts.append(f"<p>{' · '.join(link.render() for link in links)}</p>")

    def add_figure(self, figure: Figure, caption: str) -> None:
        """A picture, embedded in the file."""
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110, metadata={"Software": None})
        encoded = base64.b64encode(data.getvalue()).decode("ascii")
        self._parts.append(
            f'<figure><img alt="{escape(caption, quote=True)}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def render(self) -> str:
        """The page as HTML."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>\n"
            f"<body>{''.join(part + chr(10) for part in self._parts)}</body></html>\n"
        )


def _cell(value: object, *, is_note: bool) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:.4g}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    text = value.render() if isinstance(value, Link) else escape(str(value))
    return f'<td class="note">{text}</td>' if is_note else f"<td>{text}</td>"
