"""`hept-train presets`: what each preset is for."""

from __future__ import annotations

from pathlib import Path

import click

from .command_line import json_option, write_json
from .printing import console, print_table


@click.command("presets")
@json_option
def command(json_path: Path | None) -> None:
    """List the presets of `hept-train fit` with purpose, size and time.

    \b
    Example:
      hept-train presets
    """
    from hept.settings.preset_choice import describe_presets

    cards = describe_presets()
    rows = [(card.name, card.points, card.device.upper(), card.epochs) for card in cards]
    print_table("Presets", ("", "points per cloud", "device", "epochs"), rows)
    for card in cards:
        console.print(f"{card.name}: {card.purpose}; {card.time}", highlight=False, soft_wrap=True)
    write_json(json_path, [card.model_dump() for card in cards])
