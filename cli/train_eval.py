"""`hept-train eval`: how good a trained model is."""

from __future__ import annotations

from pathlib import Path

import click

from hepdata.errors import InputError

from .frame import json_option, write_json
from .progress import ProgressBar
from .tables import print_table


@click.command("eval")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", default="test", show_default=True, help="Split to evaluate on.")
@json_option
def command(model: Path, dataset: str | None, split: str, json_path: Path | None) -> None:
    """Evaluate MODEL (a run folder, a weights file or the published checkpoint) on DATASET.

    Without DATASET, a run folder is evaluated on the dataset that it was trained on.

    \b
    Examples:
      hept-train eval runs/a
      hept-train eval runs/a tracking --split valid --json metrics.json
    """
    from hepdata.loader.dataset import open_dataset
    from hept.checkpoint import load_model
    from hept.evaluation.evaluator import evaluate
    from hept.evaluation.reconstruction import reconstruct
    from hept.evaluation.tuning import load_clustering

    location = dataset if dataset is not None else dataset_of(model)
    with ProgressBar() as progress:
        trained, dataset_opened = load_model(model), open_dataset(location)
        metrics = evaluate(trained, dataset_opened, split, progress=progress)
    clustering = load_clustering(model) if model.is_dir() else None
    if trained.is_embedding and clustering is not None:
        metrics |= reconstruct(trained, dataset_opened, split, clustering).summary()
    print_table(f"{model} on {location}, {split}", ("metric", "value"), list(metrics.items()))
    write_json(json_path, metrics)


def dataset_of(model: Path) -> str:
    """The dataset that a run folder was trained on.

    Raises:
        InputError: Not a run folder.
    """
    from hept.run_folder import RunFolder

    if not (model / "run.json").exists():
        raise InputError(
            model,
            found="no dataset named",
            expected="a dataset to evaluate on (only a run folder knows its own)",
            remedy=f"add it: hept-train eval {model} DATASET",
        )
    return str(RunFolder(model).read_description()["dataset"])
