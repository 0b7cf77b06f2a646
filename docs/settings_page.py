"""The page of all settings, made from the settings themselves."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import hept

if TYPE_CHECKING:
    from pathlib import Path

    from hept.settings.listing import Setting

INTRODUCTION = """# Settings

Made from the code. `hept-train fit --set NAME=VALUE` changes a setting, a YAML file (`--preset FILE`)
several, and `hept-train settings NAME` explains one on the command line. Presets with another value than the
default are named with theirs.
"""


def write_settings_page(path: Path) -> None:
    """Write one table for each section of the settings."""
    parts = [INTRODUCTION]
    settings = sorted(hept.list_settings(), key=lambda setting: "." in setting.name)
    for section, members in groupby(settings, key=lambda setting: setting.name.rpartition(".")[0]):
        rows = [f"| `{setting.name}` | {_default(setting)} | {_explain(setting)} |" for setting in members]
        title = f"`{section}`" if section else "The run"
        header = ["| name | default | meaning |", "|---|---|---|"]
        parts.append("\n".join([f"## {title}\n", *header, *rows, ""]))
    path.write_text("\n".join(parts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _default(setting: Setting) -> str:
    return "required" if setting.is_required else f"`{setting.default}`"


def _explain(setting: Setting) -> str:
    """Meaning, type, and presets by their values."""
    by_value: dict[str, list[str]] = {}
    for name, value in setting.presets.items():
        if value != setting.default:
            by_value.setdefault(str(value), []).append(name)
    presets = "; ".join(f"`{value}` in {', '.join(names)}" for value, names in by_value.items())
    lines = [_cell(setting.meaning), f"*{_cell(setting.type)}*", *([presets] if presets else [])]
    return "<br>".join(lines)
