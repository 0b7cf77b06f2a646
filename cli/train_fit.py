"""`hept-train fit`: train a model on a dataset."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from hepdata.errors import InputError

from .frame import json_option, threads_option, write_json
from .progress import ProgressBar
from .run_plan import plan_resume, plan_run
from .tables import console, print_table

CLOUDS_TO_TUNE_ON = 5


class _FitCommand(click.Command):
    """Lists the presets below its help, read from their files when the help is asked for."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        from hept.preset_choice import describe_presets

        with formatter.section("Presets"):
            formatter.write_dl(
                [
                    (card.name, f"{card.purpose}, {card.points:,} points a cloud: {card.time}")
                    for card in describe_presets()
                ]
            )


def _complete_preset(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from hept.config import list_presets

    return [name for name in list_presets() if name.startswith(incomplete)]


def _complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from hept.systems.catalog import NAMES

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
    "kind",
    metavar="NAME",
    shell_complete=_complete_model,
    help="Another system than HEPT, matched to it in parameters: reformer, smyrf, hyperattn, performer, flt, "
    "scatterbrain, pointtrans, flatformer, gcn, dgcnn, gravnet, gatedgnn, random, performer-khept, "
    "smyrf-khept, flatformer-khept, exact, mlp, or an ablation: hept-dot, or-only, or-only-tied, or-and, "
    "or-and-tied.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, as model.n_tables=5."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run folder to make.  [default: runs/DATASET-1, or the next number that is free]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with a run from its last saved state.",
)
@click.option(
    "--accelerator",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="Where to train.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes of a node, one device each.",
)
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="Nodes.")
@threads_option
@click.option("--no-report", is_flag=True, help="Do not tune the clustering nor write report.html.")
@json_option
def command(
    dataset: str | None,
    preset: str | None,
    kind: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    accelerator: str,
    devices: int,
    nodes: int,
    threads: int | None,
    no_report: bool,
    json_path: Path | None,
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
      hept-train fit --resume runs/a
    """
    if resume is not None:
        if preset or overrides or out or kind:
            raise InputError(
                "hept-train fit --resume",
                found="--preset, --model, --set or --out beside it",
                expected="the settings of the run, which are in its folder",
                remedy="leave them out, or begin a new run",
            )
        plan = plan_resume(resume, dataset)
    elif dataset is None:
        raise click.UsageError("give DATASET, or --resume RUN")
    else:
        changes = [*overrides, *([f"model.kind={kind}"] if kind else [])]
        plan = plan_run(dataset, preset, changes, out, accelerator)
    # Imported after all checks: torch takes seconds.
    from hept.threads import use_threads
    from hept.training.trainer import fit

    with ProgressBar() as progress:
        result = fit(
            plan.config,
            plan.dataset,
            plan.run,
            progress=progress,
            resume=resume is not None,
            accelerator=accelerator,
            devices=devices,
            nodes=nodes,
            threads=threads,
        )
    if not result.is_first_process:
        return 0
    rows: list[tuple[str, object]] = []
    if result.best is not None:
        rows += [(f"best {result.metric} (validation)", result.best), ("in epoch", result.best_epoch)]
    rows += [
        ("epochs", result.epochs),
        ("steps", result.steps),
        ("seconds", result.seconds),
        ("threads", result.threads),
        ("stopped", result.stopped),
    ]
    print_table(f"Training: {result.run}", ("", "value"), rows)
    write_json(json_path, {"run": str(result.run), **dict(rows)})
    if result.stopped == "interrupted":
        console.print(f"Go on with: hept-train fit --resume {result.run}", highlight=False)
        return 128 + (result.signal or signal.SIGINT)
    if not no_report:
        with use_threads(result.threads):
            report = _report(result.run, plan.dataset)
        console.print(f"Report: {report}", highlight=False, soft_wrap=True)
    console.print(f"Next: hept-train eval {result.run}", highlight=False, soft_wrap=True)
    return 0


def _report(run: Path, location: str) -> Path:
    """Choose the clustering on the validation split, then report on the test split, where there is one."""
    from hepdata.loader.dataset import open_dataset
    from hept.checkpoint import load_model
    from hept.evaluation.tuning import save_clustering, tune_clustering
    from hept.report import write_report

    dataset, trained = open_dataset(location), load_model(run)
    with ProgressBar() as progress:
        if trained.is_embedding:
            trials = tune_clustering(trained, dataset, max_clouds=CLOUDS_TO_TUNE_ON, progress=progress)
            save_clustering(run, trials[0].clustering)
        split = "test" if "test" in dataset.splits and len(dataset["test"]) else "valid"
        return write_report(run, dataset, split=split, progress=progress)
