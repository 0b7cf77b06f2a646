"""`hept-train settings`: every setting of a training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from hept.settings.listing import Setting, list_settings

from .command_line import json_option, write_json
from .printing import console, print_table


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from hept.settings.train_config import list_keys

    return [key for key in list_keys() if key.startswith(incomplete)]


@click.command("settings")
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def command(name: str | None, json_path: Path | None) -> None:
    """List every setting of `hept-train fit`, or the one called NAME: type, default, meaning, presets.

    NAME may also be a section: model, data, loss or optimizer.

    \b
    Examples:
      hept-train settings
      hept-train settings model.n_regions
    """
    settings = list_settings(name)
    if len(settings) == 1:
        _print_one(settings[0])
    else:
        for setting in settings:
            console.print(
                f"[bold]{setting.name}[/] ({setting.type}; {_default(setting)})",
                highlight=False,
                soft_wrap=True,
            )
            console.print(
                f"    {setting.meaning}{_changes(setting)}", highlight=False, markup=False, soft_wrap=True
            )
    write_json(json_path, [asdict(setting) for setting in settings])


def _print_one(setting: Setting) -> None:
    rows: list[tuple[object, object]] = [
        ("type", setting.type),
        ("default", show_value(setting.default) if not setting.is_required else "none: must be given"),
        *((f"in {preset}", show_value(value)) for preset, value in setting.presets.items()),
    ]
    print_table(setting.name, ("", "value"), rows)
    console.print(setting.meaning, highlight=False, markup=False, soft_wrap=True)


def _default(setting: Setting) -> str:
    return "must be given" if setting.is_required else f"default {show_value(setting.default)}"


def _changes(setting: Setting) -> str:
    if not setting.presets or setting.is_required:
        return ""
    return (
        " Changed by "
        + ", ".join(f"{name}: {show_value(value)}" for name, value in setting.presets.items())
        + "."
    )


def show_value(value: object) -> str:
    """A value as written in a YAML file of settings."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
