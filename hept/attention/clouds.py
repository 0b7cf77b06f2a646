"""Which points belong to which cloud: offsets enter, per-point and per-cloud views leave.

Axes: N points on the one flat axis, B clouds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hept.devices.tracing import is_exporting


@dataclass(frozen=True)
class Clouds:
    """The clouds of a ragged batch on the flat point axis.

    All shapes follow from N and B, never from the values of `offsets`, so no GPU synchronisation is needed.

    Attributes:
        offsets: (B+1,) int64; cloud b holds the points offsets[b] … offsets[b+1]−1.
        sizes: (B,) int64, points in each cloud.
        index: (N,) int64, the cloud of each point.
    """

    offsets: Tensor
    sizes: Tensor
    index: Tensor

    @property
    def n_points(self) -> int:
        """Points of all clouds together."""
        return self.index.shape[0]

    @property
    def n_clouds(self) -> int:
        """Clouds in the batch, empty ones included."""
        return self.sizes.shape[0]

    @property
    def is_single(self) -> bool:
        """Whether there is only one cloud, which needs no look-ups."""
        return not is_exporting() and self.n_clouds == 1

    def spread(self, per_cloud: Tensor) -> Tensor:
        """Repeat a value per cloud (..., B), or per offset (B+1,), for each point of the cloud: (..., N)."""
        if self.is_single and per_cloud.shape[-1] == 1:
            return per_cloud.expand(*per_cloud.shape[:-1], self.n_points)
        return per_cloud.index_select(-1, self.index)

    @classmethod
    def from_offsets(cls, offsets: Tensor, n_points: int) -> Clouds:
        """Describe a batch of `n_points` points cut at `offsets`.

        Raises:
            ValueError: The offsets do not partition the point axis (values are checked on the CPU only).
        """
        if offsets.ndim != 1 or offsets.shape[0] < 2 or offsets.dtype != torch.int64:
            raise ValueError(
                f"offsets: got shape {tuple(offsets.shape)} and {offsets.dtype}, "
                "need int64 of shape (n_clouds + 1,) with at least one cloud"
            )
        # Reading values synchronises a GPU; compiled and fake tensors have no values.
        if type(offsets) is Tensor and offsets.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_values(offsets, n_points)
        begin, end = offsets.narrow(0, 0, offsets.shape[0] - 1), offsets.narrow(0, 1, offsets.shape[0] - 1)
        return cls(offsets, end - begin, count_ended(end, n_points))


def count_ended(ends: Tensor, length: int) -> Tensor:
    """How many intervals with these ends (B,) end at or before each of `length` positions: (length,)."""
    n_ends = ends.new_zeros(length + 1).scatter_add_(0, ends, torch.ones_like(ends))
    return n_ends.narrow(0, 0, length).cumsum(0)


def _check_values(offsets: Tensor, n_points: int) -> None:
    if int(offsets[0]) != 0 or int(offsets[-1]) != n_points or bool((offsets.diff() < 0).any()):
        raise ValueError(
            f"offsets: got {offsets[0].item()} … {offsets[-1].item()} for {n_points} points, "
            "need ascending values from 0 to the number of points"
        )
