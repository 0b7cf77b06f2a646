"""A console that escapes control characters in text from files."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from hepdata.plain_text import printable


class SafeConsole(Console):
    """Prints strings and tables with control characters escaped."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape a string; rich calls this for every string, including cells of tables."""
        return super().render_str(printable(text), **options)
