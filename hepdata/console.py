"""A console for text that comes from files: control characters never reach the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from hepdata.plain_text import printable


class SafeConsole(Console):
    """Prints strings and tables without the control characters that a file may have put into them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string on its way to the terminal, those in tables too, comes through here."""
        return super().render_str(printable(text), **options)
