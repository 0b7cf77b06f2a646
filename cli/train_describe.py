"""`hept-train describe`: parameters and operations of a model."""

from __future__ import annotations

from pathlib import Path

import click

from hept.model.cost import describe
from hept.settings.listing import list_settings, read_setting

from .command_line import json_option, write_json
from .printing import console, print_table
from .train_settings import show_value


@click.command("describe")
@click.argument("model", metavar="MODEL")
@click.option(
    "--points",
    multiple=True,
    type=click.IntRange(min=1),
    help="Points per cloud; may be repeated.  [default: those of the paper's datasets]",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting of a preset.")
@json_option
def command(model: str, points: tuple[int, ...], settings: tuple[str, ...], json_path: Path | None) -> None:
    """Count the parameters of MODEL and the operations of a forward pass.

    MODEL is a preset, a configuration file, a run folder, a weights file or the published checkpoint. An
    operation is one multiply-add, as in the paper's tables.

    \b
    Examples:
      hept-train describe tracking-60k
      hept-train describe runs/a --points 10000 --json cost.json
    """
    found = describe(model, points=points, settings=settings)
    # Imported after all checks: torch takes seconds.
    from hept.attention.kernels.native import count_lanes

    rows: list[tuple[object, ...]] = [
        ("numbers in the weights", found.parameters),
        ("of which trainable", found.trainable),
        ("features", found.n_features),
        ("coordinates", found.coords_dim),
    ]
    for cost in found.costs:
        rows.append((f"GFLOPs at {cost.n_points:,} points", cost.total / 1e9))
        rows += [(f"  {part}", operations / 1e9) for part, operations in cost.parts.items()]
    loops = f"compiled, {count_lanes()} numbers at a time" if count_lanes() else "in torch, not compiled"
    rows.append(("attention on this CPU", loops))
    print_table(model, ("", "value"), rows)
    for setting in list_settings("model"):
        value = show_value(read_setting(found.config, setting.name))
        line = f"{setting.name} = {value}: {setting.meaning}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    content = {
        "model": model,
        "parameters": found.parameters,
        "trainable": found.trainable,
        "n_features": found.n_features,
        "coords_dim": found.coords_dim,
        "flops": [
            {"n_points": cost.n_points, "gflops": cost.total / 1e9, "parts": cost.parts}
            for cost in found.costs
        ],
        "compiled_lanes": count_lanes(),
    }
    write_json(json_path, content)
