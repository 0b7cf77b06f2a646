"""Check whether a dataset fits a model, from settings and a manifest.

Only the manifest is read and torch is not imported, so that a wrong command fails immediately.
"""

from __future__ import annotations

from collections.abc import Sequence

from hepdata.errors import InputError
from hepdata.inputs import check_inputs, choose_inputs
from hepdata.loader.dataset import Dataset
from hepdata.loader.split import Split
from hepdata.schema import ModelInput, Target
from hepdata.storage.dataset.names import SPLITS
from hept.settings.train_config import TrainConfig

# A model's features and coordinates.
Inputs = tuple[tuple[ModelInput, ...], tuple[ModelInput, ...]]


def check_training(config: TrainConfig, dataset: Dataset) -> None:
    """Check that a configuration can be trained on a dataset.

    Raises:
        InputError: Wrong task, no pairs or labels, an empty split, or an unknown column.
    """
    check_task(dataset, config.task, "this preset")
    for split in ("train", "valid"):
        check_split(dataset, split)
    # Other objectives may need pairs too, but their modules import torch; they are checked later.
    is_paired = find_target(dataset).objective == "pairs" and config.loss.negatives != "mined"
    check_labels(dataset, needs_pairs=is_paired)
    _check_output(config, dataset)
    check_fit(dataset, *choose_model_inputs(config, dataset), whose="this run")


def choose_model_inputs(config: TrainConfig, dataset: Dataset) -> Inputs:
    """Features and coordinates from the settings and the dataset's schema, without learned shift and spread.

    Raises:
        InputError: An unknown column or field, or an invalid value.
    """
    schema = dataset.schema
    features = choose_inputs(schema, schema.features, config.data.features, where="data.features")
    coords = choose_inputs(schema, schema.coordinates, config.data.coords, where="data.coords")
    _check_coords(coords)
    return features, coords


def check_fit(
    dataset: Dataset | Split, features: Sequence[ModelInput], coords: Sequence[ModelInput], *, whose: str
) -> None:
    """Check that a dataset stores a model's inputs in the same units, and no unknown classes.

    Raises:
        InputError: A column is missing, has another unit, or holds unknown classes.
    """
    where = dataset.root.location
    check_inputs(dataset.schema, (*features, *coords), where=where, whose=whose)
    ranges = dataset.manifest.statistics().columns
    for entry in features:
        largest = ranges[entry.column].maximum if entry.column in ranges else None
        if entry.n_classes and largest is not None and largest >= entry.n_classes:
            raise InputError(
                where,
                found=f"{entry.column} up to {largest:g}",
                expected=f"the classes 0 … {entry.n_classes - 1} of {whose}",
                remedy=f"train with n_classes of the input {entry.column} at least {largest + 1:g}",
            )


def find_target(dataset: Dataset) -> Target:
    """The training target of a dataset.

    Raises:
        InputError: The manifest names none.
    """
    target = dataset.schema.target
    if target is None:
        raise InputError(
            dataset.root.location,
            found=f"a dataset of the task {dataset.task!r} without a target",
            expected="a schema that names an objective and a label",
            remedy="build it again with a target (hepdata.schema.Target) in its schema",
        )
    return target


def check_task(dataset: Dataset, task: str, what: str, *, objective: str | None = None) -> None:
    """Check the task of a dataset, and its objective if one is given.

    Raises:
        InputError: The dataset has another task or objective.
    """
    if dataset.task != task:
        raise InputError(
            dataset.root.location,
            found=f"a {dataset.task} dataset",
            expected=f"a {task} dataset for {what}",
            remedy=f"give a {task} dataset, or choose a preset or model for {dataset.task}",
        )
    if objective is not None and find_target(dataset).objective != objective:
        raise InputError(
            dataset.root.location,
            found=f"a dataset with the objective {find_target(dataset).objective!r}",
            expected=f"the objective {objective!r} of {what}",
            remedy="give a dataset with the same objective, or train on this one",
        )


def check_split(dataset: Dataset, split: str) -> None:
    """Check that a split has clouds.

    Raises:
        InputError: It has none, or there is no such split.
    """
    # A build omits splits without events. For an unknown name, `dataset[split]` raises.
    is_left_out = split in SPLITS and split not in dataset.splits
    if is_left_out or len(dataset[split]) == 0:
        raise InputError(
            f"{dataset.root.location}, split {split!r}",
            found="no clouds",
            expected="at least one",
            remedy="build it from more events, or change the fractions with `split` of hept-data build",
        )


def check_labels(dataset: Dataset, *, needs_pairs: bool) -> None:
    """Check that a dataset has truth labels, and pair lists if needed.

    Raises:
        InputError: Labels or pair lists are missing.
    """
    target = find_target(dataset)
    for name in (target.label, target.selection, target.pt):
        if name is not None and not dataset.schema.has_column(name):
            raise InputError(
                dataset.root.location,
                found=f"no column {name!r}",
                expected="a dataset with truth",
                remedy="build it from files with truth",
            )
    if needs_pairs and not dataset.manifest.has_pairs:
        raise InputError(
            dataset.root.location,
            found="no pair lists",
            expected="positive and negative pairs for the InfoNCE loss",
            remedy="build the dataset with pairs (`pairs='paper'` of hept-data build tracking), or set "
            "loss.negatives=mined",
        )


def _check_output(config: TrainConfig, dataset: Dataset) -> None:
    if find_target(dataset).objective == "classification" and config.model.out_dim != 1:
        raise InputError(
            "model.out_dim",
            found=f"{config.model.out_dim} outputs of a point",
            expected="1 for the objective 'classification' of this dataset",
            remedy="choose a preset for classes, such as points-classes",
        )


def _check_coords(coords: Sequence[ModelInput]) -> None:
    if len(coords) < 2:
        raise InputError(
            "data.coords",
            found=f"{len(coords)} coordinate",
            expected="at least two: points are hashed by the first two",
            remedy="name another one",
        )
