"""Point clouds: made by features, stored by storage, returned by the loader.

Axes: N points of one cloud, E pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hepdata.column_attributes import ColumnAttributes
from hepdata.errors import InputError
from hepdata.html_table import format_cell, html_table
from hepdata.schema import SCHEMAS, ModelInput, Schema

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PairList:
    """For every point its partners, as compressed sparse rows.

    Attributes:
        ptr: (N + 1,) int32; row i is idx[ptr[i]:ptr[i + 1]].
        idx: (E,) int32, ascending within a row.
    """

    ptr: NDArray[np.int32]
    idx: NDArray[np.int32]

    @property
    def n_pairs(self) -> int:
        """Directed pairs in the list."""
        return len(self.idx)

    def row(self, point: int) -> NDArray[np.int32]:
        """The partners of one point."""
        return self.idx[self.ptr[point] : self.ptr[point + 1]]

    def as_edges(self) -> NDArray[np.int32]:
        """(2, E): anchor and partner of every pair."""
        anchors = np.repeat(np.arange(len(self.ptr) - 1, dtype=np.int32), np.diff(self.ptr))
        return np.stack([anchors, self.idx])


@dataclass(frozen=True, repr=False)
class PointCloud(ColumnAttributes[NDArray[Any]]):
    """One event, or one sector of it, as points in the η–φ plane.

    Columns are attributes: `cloud.eta`, `cloud.particle_id`.

    Attributes:
        task: Name of the task.
        event_id: Event number in the source.
        sector: φ sector, 0 where the event is not divided.
        columns: One array of N values per column of the task's schema.
        positives: Points of the same particle; None if pairs were not built or not read.
        negatives: Points of other particles, or None.
        n_dropped: Points removed by an acceptance cut; counted in the manifest, not stored.
        schema: Of the dataset that the cloud was read from; None for a task of this package.
    """

    task: str
    event_id: int
    sector: int
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    positives: PairList | None = field(default=None, repr=False)
    negatives: PairList | None = field(default=None, repr=False)
    n_dropped: int = field(default=0, repr=False, compare=False)
    schema: Schema | None = field(default=None, repr=False, compare=False)

    @property
    def n_points(self) -> int:
        """Points in the cloud."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def features(self) -> NDArray[np.float32]:
        """(N, F): the dataset's features, scaled, as a batch has them."""
        return self._stack(self._schema().features)

    @property
    def coords(self) -> NDArray[np.float32]:
        """(N, D): the dataset's coordinates, scaled, as a batch has them; η and φ come first."""
        return self._stack(self._schema().coordinates)

    def to_pandas(self) -> pd.DataFrame:
        """The columns as a table, one row per point."""
        import pandas as pd

        return pd.DataFrame(dict(self.columns), index=pd.RangeIndex(self.n_points, name="point"))

    def plot(self) -> Figure:
        """The points in the η–φ plane, coloured by what they belong to; a notebook shows the figure."""
        from hepdata.pictures.cloud import draw_cloud

        return draw_cloud(self, self._schema())

    def _stack(self, inputs: Sequence[ModelInput]) -> NDArray[np.float32]:
        missing = [entry.column for entry in inputs if entry.column not in self.columns]
        if missing:
            raise InputError(
                repr(self),
                found=f"no column {missing[0]!r}",
                expected=f"the inputs {', '.join(entry.column for entry in inputs)}",
                remedy="read the cloud with all its columns",
            )
        return stack_inputs(self.columns, inputs, self.n_points)

    def _schema(self) -> Schema:
        return self.schema or SCHEMAS[self.task]

    def __repr__(self) -> str:
        pairs = [
            f"{pairs.n_pairs:,} {kind} pairs"
            for kind, pairs in (("positive", self.positives), ("negative", self.negatives))
            if pairs is not None
        ]
        parts = [f"{self.n_points:,} points", f"{len(self.columns)} columns", *pairs]
        sector = f", sector {self.sector}" if self.sector else ""
        return f"PointCloud({self.task}, event {self.event_id}{sector}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [
            (name, values.dtype.name, *(_summarise(values) if len(values) else ("–", "–", "–")))
            for name, values in self.columns.items()
        ]
        return html_table(repr(self), ("column", "type", "min", "mean", "max"), rows)


def stack_inputs(
    columns: Mapping[str, NDArray[Any]], inputs: Sequence[ModelInput], n_points: int
) -> NDArray[np.float32]:
    """(N, len(inputs)): stored columns multiplied by the scales of the inputs.

    Raises:
        KeyError: A column is missing.
    """
    matrix = np.empty((n_points, len(inputs)), np.float32)
    for j, entry in enumerate(inputs):
        values, column = columns[entry.column], matrix[:, j]
        if entry.scale == 1.0:
            column[:] = values
        else:
            # Scaled in double precision, rounded once.
            np.multiply(values, np.float64(entry.scale), out=column, casting="same_kind")
    return matrix


def _summarise(values: NDArray[Any]) -> list[str]:
    return [format_cell(number.item()) for number in (values.min(), values.mean(), values.max())]
