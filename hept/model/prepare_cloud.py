"""Inputs of a model: clouds or batches enter, a batch with the model's features and coordinates leaves.

Axes: N points of all clouds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray

from hepdata.cloud import PointCloud, stack_inputs
from hepdata.errors import InputError
from hepdata.inputs import check_inputs
from hepdata.loader.batch import Batch
from hepdata.loader.collate import BatchLayout, collate
from hepdata.schema import ModelInput


def prepare_batch(
    points: PointCloud | Batch, features: Sequence[ModelInput], coords: Sequence[ModelInput], *, whose: str
) -> Batch:
    """Make a batch with a model's features and coordinates from the stored columns.

    The feature matrix of a given batch is not used: it follows the dataset's list of features, and the model
    may have another.

    Args:
        points: A cloud, or a batch with the stored columns.
        features: Features of the model.
        coords: Coordinates of the model.
        whose: Name of the model in messages.

    Raises:
        InputError: A column is missing, or stored in another unit.
    """
    inputs = (*features, *coords)
    if points.schema is not None:
        check_inputs(points.schema, inputs, where=repr(points), whose=whose)
    _check_columns(points, inputs, whose)
    if isinstance(points, PointCloud):
        # Pairs are only needed in training.
        cloud = replace(points, positives=None, negatives=None)
        return collate([cloud], BatchLayout(tuple(features), tuple(coords), columns=(), pairs=False))
    columns: Mapping[str, NDArray[Any]] = {
        entry.column: points.columns[entry.column].cpu().numpy() for entry in inputs
    }
    device = points.offsets.device
    matrices = (torch.from_numpy(stack_inputs(columns, part, points.n_points)) for part in (features, coords))
    own_features, own_coords = (matrix.to(device) for matrix in matrices)
    return replace(points, features=own_features, coords=own_coords)


def _check_columns(points: PointCloud | Batch, inputs: Sequence[ModelInput], whose: str) -> None:
    for entry in inputs:
        if entry.column not in points.columns:
            raise InputError(
                repr(points),
                found=f"no column {entry.column!r}",
                expected=f"the input {entry.column!r} of {whose}",
                remedy="read the cloud or batch with all its columns",
            )
