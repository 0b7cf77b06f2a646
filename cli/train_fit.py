"""`hept-train fit`: train a model on a dataset."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hepdata
import hept

from .command_line import device_option, json_option, precision_option, threads_option, write_json
from .printing import console, format_bytes, print_table

if TYPE_CHECKING:
    from hept.training.memory_plan import MemoryPlan

CLOUDS_TO_TUNE_ON = 5


class _FitCommand(click.Command):
    """Lists the presets below its help, read from their files when the help is asked for."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        from hept.settings.preset_choice import describe_presets

        with formatter.section("Presets"):
            formatter.write_dl(
                [
                    (card.name, f"{card.purpose}, {card.points:,} points per cloud: {card.time}")
                    for card in describe_presets()
                ]
            )


def _complete_preset(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from hept.settings.load import list_presets

    return [name for name in list_presets() if name.startswith(incomplete)]


def _complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from hept.paper.systems.catalog import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


@click.command("fit", cls=_FitCommand)
@click.argument("dataset", required=False)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=_complete_preset,
    help="Preset (below), or a .yaml file of your own.  [default: by task, cloud size and device]",
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=_complete_model,
    help="Another system than HEPT, matched to it in parameters: reformer, smyrf, hyperattn, performer, flt, "
    "scatterbrain, pointtrans, flatformer, gcn, dgcnn, gravnet, gatedgnn, random, performer-khept, "
    "smyrf-khept, flatformer-khept, exact, mlp, or an ablation: hept-dot, or-only, or-only-tied, or-and, "
    "or-and-tied; or your own attention as module:Class.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting, as model.n_tables=5."
)
@click.option(
    "--logger",
    type=click.Choice(["csv", "tensorboard", "wandb", "mlflow"]),
    help="Where figures go besides the run's own tables.  [default: the setting `logger`, tensorboard]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run folder to make.  [default: runs/DATASET-1, or the next number that is free]",
)
@click.option(
    "--init",
    type=click.Path(path_type=Path),
    metavar="WEIGHTS",
    help="Start from a trained model: a run or a weights file. Network and inputs are its own.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with a run from its last saved state.",
)
@device_option
@precision_option
@click.option(
    "--devices",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes of a node, one device each.",
)
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="Nodes.")
@threads_option
@click.option("--plan", is_flag=True, help="Only tell how much memory a step would take on a GPU.")
@click.option("--no-report", is_flag=True, help="Do not tune the clustering nor write report.html.")
@json_option
def command(
    dataset: str | None, plan: bool, no_report: bool, json_path: Path | None, **arguments: Any
) -> int:
    """Train a model on DATASET.

    After a few steps it tells how long the whole run will take. Ctrl-C and SIGTERM save and stop; the same
    command with --out, or --resume, goes on.

    \b
    Examples:
      hept-train fit tracking
      hept-train fit tracking --preset tracking-demo --out runs/a
      hept-train fit tracking --preset tracking-6k --set model.n_tables=5 --out runs/b
      hept-train fit tracking --preset tracking-demo --model gravnet --out runs/c
      hept-train fit tracking --preset tracking-6k --set batch_points=120000 --plan
      hept-train fit tracking --init runs/a --set optimizer.lr=1e-3 --out runs/d
      hept-train fit --resume runs/a
    """
    if dataset is None and arguments["resume"] is None:
        raise click.UsageError("give DATASET, or --resume RUN")
    if plan:
        if dataset is None:
            raise click.UsageError("give DATASET with --plan")
        for name in ("out", "logger", "init", "resume", "threads"):
            del arguments[name]
        _print_plan(hept.plan_memory(dataset, **arguments), json_path)
        return 0
    run = hept.fit(dataset, **arguments, progress=True)
    result = run.result
    if result is None or not result.is_first_process:
        return 0
    rows: list[tuple[str, object]] = []
    if result.best is not None:
        rows += [(f"best {result.metric} (validation)", result.best), ("in epoch", result.best_epoch)]
    rows += [
        ("epochs", result.epochs),
        ("steps", result.steps),
        ("seconds", result.seconds),
        *([("steps skipped (float16 overflow)", result.skipped)] if result.skipped else []),
        ("threads", result.threads),
        ("stopped", result.stopped),
    ]
    # Imported after all checks: torch takes seconds.
    from hept.report.definitions import name_metric

    shown = [(name.replace(f" {result.metric} ", f" {name_metric(result.metric)} "), v) for name, v in rows]
    print_table(f"Training: {result.run}", ("", "value"), shown)
    write_json(json_path, {"run": str(result.run), **dict(rows)})
    if result.stopped == "interrupted":
        console.print(f"Go on with: hept-train fit --resume {result.run}", highlight=False)
        return 128 + (result.signal or signal.SIGINT)
    if not no_report:
        report = hept.write_report(
            run,
            run.open_dataset() if dataset is None else hepdata.open_dataset(dataset),
            tune_clouds=CLOUDS_TO_TUNE_ON,
            device=arguments["device"],
            threads=result.threads,
            progress=True,
        )
        console.print(f"Report: {report}", highlight=False, soft_wrap=True)
    console.print(f"Next: hept-train eval {result.run}", highlight=False, soft_wrap=True)
    return 0


def _print_plan(memory: MemoryPlan, json_path: Path | None) -> None:
    sizes = {name: value for name, value in vars(memory).items() if not name.startswith("n_")}
    rows: list[tuple[str, object]] = [
        ("points of the largest batch", memory.n_points),
        ("pairs", memory.n_pairs),
    ]
    rows += [(name, format_bytes(size)) for name, size in sizes.items()]
    rows += [("sum", format_bytes(memory.total))]
    print_table("Memory of a training step on a GPU, estimated", ("", "value"), rows)
    write_json(json_path, {**vars(memory), "total": memory.total})
