"""What a model is applied to: clouds or batches enter, a batch with the model's own inputs leaves.

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
    """The points with the features and coordinates that a model reads, made from the stored columns.

    A batch's own feature matrix is not used: it was made by the dataset's list, and the model may have
    another.

    Args:
        points: A cloud, or a batch that carries the stored columns.
        features: Of the model.
        coords: Of the model.
        whose: Names the model in messages.

    Raises:
        InputError: A column is missing, or stored in another unit.
    """
    inputs = (*features, *coords)
    if points.schema is not None:
        check_inputs(points.schema, inputs, where=repr(points), whose=whose)
    _check_columns(points, inputs, whose)
    if isinstance(points, PointCloud):
        # Pairs are for training.
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
