"""Text from files reaches a terminal without control characters."""

import pytest

from hepdata.errors import InputError
from hepdata.plain_text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\rhidden", "\\rhidden"),
        ("η–φ, tabs\tand\nlines stay", "η–φ, tabs\tand\nlines stay"),
    ],
)
def test_control_characters_become_visible(text, shown):
    assert printable(text) == shown


def test_messages_of_errors_have_none():
    error = InputError("\x1b[2J", found="\x1b[31m", expected="\x07", remedy="\x9b")
    assert str(error).isprintable()
