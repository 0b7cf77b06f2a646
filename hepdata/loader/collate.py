"""Clouds in, one batch of tensors out.

Axes: N points of all clouds, B clouds, F features, E pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from hepdata.cloud import PairList, PointCloud, stack_inputs
from hepdata.inputs import InputChoice, choose_inputs
from hepdata.loader.batch import Batch, PairTensors
from hepdata.schema import ModelInput

if TYPE_CHECKING:
    from hepdata.loader.split import Split

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class BatchLayout:
    """What a batch contains.

    Attributes:
        features: Columns and scales of the feature matrix, in order.
        coords: Columns and scales of the coordinates.
        columns: Columns that the batch carries as they are stored.
        pairs: Whether pair lists are read.
    """

    features: tuple[ModelInput, ...]
    coords: tuple[ModelInput, ...]
    columns: tuple[str, ...]
    pairs: bool

    @classmethod
    def choose(
        cls,
        split: Split,
        *,
        features: Sequence[InputChoice] | None,
        coords: Sequence[InputChoice] | None,
        select: Sequence[str] | None,
        scaled: bool,
        pairs: bool,
    ) -> BatchLayout:
        """The layout for the arguments of `Split.loader`; see `hepdata.loader.stream.Loader`.

        Raises:
            InputError: An unknown column, or an input that does not fit its column.
        """
        schema = split.schema
        kept = split.column_names if select is None else split.check_columns(select)
        where = split.root.location
        chosen = (
            choose_inputs(schema, schema.features, features, where=where)
            if features is not None
            else tuple(entry for entry in schema.features if entry.column in kept)
        )
        coordinates = choose_inputs(schema, schema.coordinates, coords, where=where)
        return cls(
            features=chosen if scaled else _unscaled(chosen),
            coords=coordinates if scaled else _unscaled(coordinates),
            columns=kept,
            pairs=pairs and split.manifest.has_pairs,
        )

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Every column that must be read, each once."""
        inputs = [entry.column for entry in (*self.features, *self.coords)]
        return tuple(dict.fromkeys([*self.columns, *inputs]))


def collate(clouds: Sequence[PointCloud], layout: BatchLayout) -> Batch:
    """Put clouds on one flat point axis."""
    offsets = np.zeros(len(clouds) + 1, np.int64)
    np.cumsum([cloud.n_points for cloud in clouds], out=offsets[1:])
    columns = {name: _join([cloud.columns[name] for cloud in clouds]) for name in layout.reads}
    return Batch(
        features=torch.from_numpy(stack_inputs(columns, layout.features, int(offsets[-1]))),
        coords=torch.from_numpy(stack_inputs(columns, layout.coords, int(offsets[-1]))),
        offsets=torch.from_numpy(offsets),
        cloud_index=torch.from_numpy(np.repeat(np.arange(len(clouds)), np.diff(offsets))),
        event_id=torch.from_numpy(np.array([cloud.event_id for cloud in clouds], np.int64)),
        sector=torch.from_numpy(np.array([cloud.sector for cloud in clouds], np.int64)),
        columns={name: torch.from_numpy(columns[name]) for name in layout.columns},
        positives=_join_pairs([cloud.positives for cloud in clouds], offsets),
        negatives=_join_pairs([cloud.negatives for cloud in clouds], offsets),
        schema=clouds[0].schema if clouds else None,
    )


def _unscaled(inputs: tuple[ModelInput, ...]) -> tuple[ModelInput, ...]:
    return tuple(replace(entry, scale=1.0) for entry in inputs)


def _join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _join_pairs(parts: list[PairList | None], offsets: NDArray[np.int64]) -> PairTensors | None:
    pairs = [part for part in parts if part is not None]
    if not pairs:
        return None
    if len(pairs) == 1:
        return PairTensors(torch.from_numpy(pairs[0].ptr.astype(np.int64)), torch.from_numpy(pairs[0].idx))
    ends = np.cumsum([part.n_pairs for part in pairs])
    ptr = np.zeros(offsets[-1] + 1, np.int64)
    idx = np.empty(ends[-1], np.int32 if offsets[-1] <= INT32_MAX else np.int64)
    for part, first_point, last_point, end in zip(pairs, offsets[:-1], offsets[1:], ends, strict=True):
        begin = end - part.n_pairs
        np.add(part.ptr[1:], begin, out=ptr[first_point + 1 : last_point + 1])
        np.add(part.idx, first_point, out=idx[begin:end], casting="unsafe")
    return PairTensors(torch.from_numpy(ptr), torch.from_numpy(idx))
