"""A batch: several clouds on one flat point axis.

Axes: N points of all clouds, B clouds, F features, D coordinates, E pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hepdata.column_attributes import ColumnAttributes
from hepdata.html_table import html_table
from hepdata.schema import Schema


@dataclass(frozen=True)
class PairTensors:
    """For every point of the batch its partners, as compressed sparse rows on the flat point axis.

    Attributes:
        ptr: (N + 1,) int64.
        idx: (E,) int32, or int64 in batches of more than 2³¹ points.
    """

    ptr: Tensor
    idx: Tensor

    @property
    def n_pairs(self) -> int:
        """Directed pairs in the list."""
        return len(self.idx)

    def as_edges(self) -> Tensor:
        """(2, E) int64: anchor and partner of every pair."""
        rows = torch.arange(len(self.ptr) - 1, device=self.ptr.device)
        anchors = torch.repeat_interleave(rows, self.ptr.diff(), output_size=len(self.idx))
        return torch.stack([anchors, self.idx.long()])


@dataclass(frozen=True, repr=False)
class Batch(ColumnAttributes[Tensor]):
    """Clouds as tensors; columns are attributes too: `batch.particle_id`.

    Attributes:
        features: (N, F) float32.
        coords: (N, D) float32.
        offsets: (B + 1,) int64; cloud b has the points offsets[b] … offsets[b + 1].
        cloud_index: (N,) int64, the cloud of every point.
        event_id: (B,) int64.
        sector: (B,) int64.
        columns: (N,) each, as stored.
        positives: Points of the same particle, or None.
        negatives: Points of other particles, or None.
        schema: Of the dataset that the clouds were read from; None if unknown.
    """

    features: Tensor
    coords: Tensor
    offsets: Tensor
    cloud_index: Tensor
    event_id: Tensor
    sector: Tensor
    columns: dict[str, Tensor] = field(repr=False)
    positives: PairTensors | None = field(default=None, repr=False)
    negatives: PairTensors | None = field(default=None, repr=False)
    schema: Schema | None = field(default=None, repr=False, compare=False)

    @property
    def n_clouds(self) -> int:
        """Clouds in the batch."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Points of all clouds."""
        return len(self.features)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The batch on another device; asynchronously from pinned memory with `non_blocking`."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, from which GPUs copy asynchronously."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            features=change(self.features),
            coords=change(self.coords),
            offsets=change(self.offsets),
            cloud_index=change(self.cloud_index),
            event_id=change(self.event_id),
            sector=change(self.sector),
            columns={name: change(values) for name, values in self.columns.items()},
            positives=_map_pairs(self.positives, change),
            negatives=_map_pairs(self.negatives, change),
        )

    def __repr__(self) -> str:
        clouds = "1 cloud" if self.n_clouds == 1 else f"{self.n_clouds:,} clouds"
        parts = [f"{name} {tuple(getattr(self, name).shape)}" for name in ("features", "coords")]
        parts.append(f"{len(self.columns)} columns")
        for kind, pairs in (("positive", self.positives), ("negative", self.negatives)):
            parts += [] if pairs is None else [f"{pairs.n_pairs:,} {kind} pairs"]
        return f"Batch({clouds}, {self.n_points:,} points on {self.features.device}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        sizes = self.offsets.diff().tolist()
        rows = zip(self.event_id.tolist(), self.sector.tolist(), sizes, strict=True)
        return html_table(repr(self), ("event", "sector", "points"), rows)


def _map_pairs(pairs: PairTensors | None, change: Callable[[Tensor], Tensor]) -> PairTensors | None:
    return None if pairs is None else PairTensors(change(pairs.ptr), change(pairs.idx))
