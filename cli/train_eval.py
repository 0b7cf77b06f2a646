"""`hept-train eval`: how good a trained model is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hepdata.errors import InputError

from .frame import json_option, threads_option, write_json
from .progress import ProgressBar
from .tables import print_table

if TYPE_CHECKING:
    from hepdata.loader.dataset import Dataset


@click.command("eval")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", default="test", show_default=True, help="Split to evaluate on.")
@threads_option
@json_option
def command(
    model: Path, dataset: str | None, split: str, threads: int | None, json_path: Path | None
) -> None:
    """Evaluate MODEL (a run folder, a weights file or the published checkpoint) on DATASET.

    Without DATASET, a run folder is evaluated on the dataset that it was trained on.

    \b
    Examples:
      hept-train eval runs/a
      hept-train eval runs/a tracking --split valid --json metrics.json
    """
    opened = open_inputs(model, dataset, split)
    # Imported after all checks: torch takes seconds.
    from hept.checkpoint import load_model
    from hept.evaluation.evaluator import evaluate
    from hept.evaluation.reconstruction import reconstruct
    from hept.evaluation.tuning import load_clustering
    from hept.threads import choose_threads, use_threads

    trained = load_model(model)
    clustering = load_clustering(model) if model.is_dir() else None
    with use_threads(choose_threads(threads)), ProgressBar() as progress:
        metrics = evaluate(trained, opened, split, progress=progress)
        if trained.is_embedding and clustering is not None:
            metrics |= reconstruct(trained, opened, split, clustering, progress=progress).summary()
    print_table(f"{model} on {opened.place.location}, {split}", ("metric", "value"), list(metrics.items()))
    write_json(json_path, metrics)


def open_inputs(model: Path, dataset: str | None, split: str | None) -> Dataset:
    """The dataset to apply a model to, where none is given that of the run; torch is not imported.

    Raises:
        InputError: No weights, no dataset, or no clouds in the split.
    """
    from hepdata.loader.dataset import open_dataset
    from hept.dataset_checks import check_split
    from hept.run_folder import find_weights

    opened = open_dataset(dataset if dataset is not None else _dataset_of(model))
    find_weights(model)
    if split is not None:
        check_split(opened, split)
    return opened


def _dataset_of(model: Path) -> str:
    from hept.run_folder import RunFolder

    if not model.exists():
        raise InputError(
            model,
            found="no such file or folder",
            expected="a run folder or a weights file",
            remedy="check the path, or train first with hept-train fit",
        )
    if not (model / "run.json").exists():
        raise InputError(
            model,
            found="no dataset named",
            expected="a dataset to evaluate on (only a run folder knows its own)",
            remedy=f"add it: hept-train eval {model} DATASET",
        )
    return str(RunFolder(model).read_description()["dataset"])
