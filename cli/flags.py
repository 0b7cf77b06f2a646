"""Parameters of functions, as messages of the library name them, in the words of the command line.

The library writes a parameter between backticks: `workers`, `overwrite=True`, `pairs='paper'`. On the command
line these are --workers, --overwrite and --pairs paper.
"""

from __future__ import annotations

import re

import click

_QUOTES = "'\""
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]+))?`")


def name_flags(text: str, command: click.Command | None) -> str:
    """The text with options and arguments of a command in the place of parameters.

    A parameter that the command does not have is one of another command, and gets the usual name.
    """
    known = {param.name: param for param in command.params} if command is not None else {}

    def rename(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        param = known.get(name)
        if isinstance(param, click.Argument):
            flag = param.metavar or name.upper()
        elif param is None:
            flag = "--" + name.replace("_", "-")
        elif value == "False" and param.secondary_opts:
            flag = param.secondary_opts[0]
        else:
            flag = param.opts[0]
        return flag if value in (None, "True", "False") else f"{flag} {value.strip(_QUOTES)}"

    return _PARAMETER.sub(rename, text)
