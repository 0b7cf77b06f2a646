"""`hept-train fit`: train a model on a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from hepdata.errors import InputError

from .frame import json_option, write_json
from .progress import ProgressBar
from .tables import console, print_table

CLOUDS_TO_TUNE_ON = 5


@click.command("fit")
@click.argument("dataset", required=False)
@click.option("--preset", metavar="NAME", help="Preset, or a .yaml file of your own.")
@click.option(
    "--model",
    "kind",
    metavar="NAME",
    help="Another system than HEPT, matched to it in parameters: reformer, smyrf, hyperattn, performer, flt, "
    "scatterbrain, pointtrans, flatformer, gcn, dgcnn, gravnet, gatedgnn, random, performer-khept, "
    "smyrf-khept, flatformer-khept, exact, mlp, or an ablation: hept-dot, or-only, or-only-tied, or-and, "
    "or-and-tied.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, as model.n_tables=5."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="RUN", help="Run folder to make.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with a run from its last saved state.",
)
@click.option("--accelerator", default="auto", show_default=True, help="cpu, cuda, mps or auto.")
@click.option("--devices", default=1, show_default=True, help="Processes of a node, one device each.")
@click.option("--nodes", default=1, show_default=True, help="Nodes.")
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
    no_report: bool,
    json_path: Path | None,
) -> int:
    """Train a model on DATASET.

    \b
    Examples:
      hept-train fit tracking --preset tracking-demo --out runs/a
      hept-train fit tracking --preset tracking-6k --set model.n_tables=5 --out runs/b
      hept-train fit tracking --preset tracking-demo --model gravnet --out runs/c
      hept-train fit --resume runs/a
    """
    # Imported here: torch takes seconds, and `--help` should not.
    from hept.config import TrainConfig, load_config
    from hept.run_folder import RunFolder
    from hept.training.trainer import fit

    config: TrainConfig
    if resume is not None:
        if preset or overrides or out or kind:
            raise InputError(
                "hept-train fit --resume",
                found="--preset, --model, --set or --out beside it",
                expected="the settings of the run, which are in its folder",
                remedy="leave them out, or begin a new run",
            )
        folder = RunFolder(resume)
        config, run = folder.read_config(), resume
        location = dataset or str(folder.read_description()["dataset"])
    else:
        if dataset is None or preset is None or out is None:
            raise click.UsageError("give DATASET, --preset and --out, or --resume RUN")
        chosen = [f"model.kind={kind}"] if kind else []
        config, location, run = load_config(preset, [*overrides, *chosen]), dataset, out
    with ProgressBar() as progress:
        result = fit(
            config,
            location,
            run,
            progress=progress,
            resume=resume is not None,
            accelerator=accelerator,
            devices=devices,
            nodes=nodes,
        )
    if not result.is_first_process:
        return 0
    rows: list[tuple[str, object]] = [
        (f"best {result.metric} (validation)", result.best),
        ("in epoch", result.best_epoch),
        ("epochs", result.epochs),
        ("steps", result.steps),
        ("seconds", result.seconds),
        ("stopped", result.stopped),
    ]
    print_table(f"Training: {result.run}", ("", "value"), rows)
    write_json(json_path, {"run": str(result.run), **dict(rows)})
    if result.stopped == "interrupted":
        console.print(f"Go on with: hept-train fit --resume {result.run}", highlight=False)
        return 130
    if not no_report:
        console.print(f"Report: {_report(result.run, location)}", highlight=False, soft_wrap=True)
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
