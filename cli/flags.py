"""Names of parameters in the library's messages, translated to options of the command line.

The library writes a parameter between backticks: `workers`, `overwrite=True`, `pairs='paper'`. On the command
line these are --workers, --overwrite and --pairs paper.
"""

from __future__ import annotations

import re

import click

_QUOTES = "'\""
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]+))?`")


def name_flags(text: str, command: click.Command | None) -> str:
    """Replace names of parameters in a text by options and arguments of a command.

    A parameter that the command does not have belongs to another command, and gets the usual option name.
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
