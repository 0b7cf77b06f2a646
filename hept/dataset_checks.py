"""What a model asks of a dataset: settings and a manifest enter, an error or nothing leaves.

Only the manifest is read and torch is not imported, so that a wrong command fails at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hepdata.errors import InputError, nearest_name
from hepdata.loader.dataset import Dataset
from hepdata.schema import Schema
from hepdata.storage.manifest import SPLITS
from hept.config import TrainConfig


def check_training(config: TrainConfig, dataset: Dataset) -> None:
    """See that a configuration can be trained on a dataset.

    Raises:
        InputError: Wrong task, no pairs or labels, an empty split, or an unknown column.
    """
    check_task(dataset, config.task, "this preset")
    for split in ("train", "valid"):
        check_split(dataset, split)
    check_labels(dataset, needs_pairs=config.task == "tracking")
    columns = [column.name for column in dataset.schema.columns]
    _check_names("data.features", config.data.features or [], columns, f"columns of {dataset.place.location}")
    _check_names("data.coords", config.data.coords or [], columns, f"columns of {dataset.place.location}")
    features = config.data.features or input_names(dataset.schema)[0]
    _check_names("data.signed_log", config.data.signed_log, features, "features")


def check_task(dataset: Dataset, task: str, what: str) -> None:
    """See that a dataset is of a task.

    Raises:
        InputError: It is of the other.
    """
    if dataset.task != task:
        raise InputError(
            dataset.place.location,
            found=f"a {dataset.task} dataset",
            expected=f"a {task} dataset for {what}",
            remedy=f"give a {task} dataset, or choose a preset or model for {dataset.task}",
        )


def check_split(dataset: Dataset, split: str) -> None:
    """See that a split has clouds.

    Raises:
        InputError: It has none, or there is no such split.
    """
    # A build leaves a split without events out; any other name is a mistake, and the dataset says so.
    is_left_out = split in SPLITS and split not in dataset.splits
    if is_left_out or len(dataset[split]) == 0:
        raise InputError(
            f"{dataset.place.location}, split {split!r}",
            found="no clouds",
            expected="at least one",
            remedy="build it from more events, or divide them otherwise with hept-data build --split",
        )


def check_labels(dataset: Dataset, *, needs_pairs: bool) -> None:
    """See that a dataset has truth, and where needed pair lists.

    Raises:
        InputError: It has not.
    """
    label = "particle_id" if dataset.task == "tracking" else "is_leading"
    if label not in {column.name for column in dataset.schema.columns}:
        raise InputError(
            dataset.place.location,
            found=f"no column {label!r}",
            expected="a dataset with truth",
            remedy="build it from files that hold the truth",
        )
    if needs_pairs and not dataset.manifest.has_pairs:
        raise InputError(
            dataset.place.location,
            found="no pair lists",
            expected="positive and negative pairs for the InfoNCE loss",
            remedy="build the dataset with pairs (hept-data build tracking --pairs paper)",
        )


def input_names(schema: Schema) -> tuple[list[str], list[str]]:
    """Column names of a schema's features and coordinates."""
    return [f.column for f in schema.features], [c.column for c in schema.coordinates]


def _check_names(setting: str, names: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                setting, found=f"{name!r}", expected=f"{what}", remedy=nearest_name(name, list(known))
            )
