"""Text from files, made safe for a terminal."""

from __future__ import annotations

import re

# Control characters of both ranges (escape sequences begin with one), marks that change the text direction,
# and surrogates. Tabs and newlines are kept.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with control characters written as escapes.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
