"""The errors that a user can cause.

Every message is one line: where it happened, what was found, what was expected, and what to do about it. The
command line prints that line and exits with the code of the class; any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from hepdata.plain_text import printable

_Preset = TypeVar("_Preset")


class HeptError(Exception):
    """A failure that a user can cause and repair.

    Attributes:
        where: File, event, column or argument at fault.
        found: What was there.
        expected: What should have been there.
        remedy: What the user can do.
        exit_code: What the command line exits with.
    """

    exit_code = 1

    def __init__(self, where: object, *, found: str, expected: str, remedy: str) -> None:
        # Names and values in messages may come from untrusted files.
        self.where = _one_line(str(where))
        self.found = _one_line(found)
        self.expected = _one_line(expected)
        self.remedy = _one_line(remedy)
        super().__init__(f"{self.where}: found {self.found}; expected {self.expected}; {self.remedy}")

    def reworded(self, change: Callable[[str], str]) -> HeptError:
        """The same error with changed texts.

        Messages name parameters of functions between backticks, as in `workers`; the command line replaces
        them by its options.
        """
        return type(self)(
            change(self.where),
            found=change(self.found),
            expected=change(self.expected),
            remedy=change(self.remedy),
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Workers send exceptions to the parent process; the default pickling would lose the keywords.
        return _rebuild, (type(self), self.where, self.found, self.expected, self.remedy)


class InputError(HeptError):
    """Wrong usage or unusable input: arguments, raw files, datasets, checkpoints (exit code 2)."""

    exit_code = 2


class JobError(HeptError):
    """A job that failed after it started: no space left, diverged training, bad validation (exit code 1)."""

    exit_code = 1


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def _rebuild(kind: type[HeptError], where: str, found: str, expected: str, remedy: str) -> HeptError:
    return kind(where, found=found, expected=expected, remedy=remedy)


def nearest_name(name: str, known: list[str]) -> str:
    """A remedy for an unknown name: the closest known one, or all of them.

    >>> nearest_name("ete", ["eta", "phi"])
    "did you mean 'eta'?"
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(sorted(known))}"


def find_preset(presets: Mapping[str, _Preset], name: str) -> _Preset:
    """The preset with this name.

    Raises:
        InputError: There is none.
    """
    if name not in presets:
        raise InputError(
            "`preset`",
            found=repr(name),
            expected="a preset of the build",
            remedy=nearest_name(name, list(presets)),
        )
    return presets[name]


def missing_extra(package: str, extra: str) -> InputError:
    """The error for an optional dependency that is not installed."""
    return InputError(
        f"import {package}",
        found="no such package",
        expected=f"the optional dependency {package!r}",
        remedy=f"install it with: pip install 'hept[{extra}]'",
    )
