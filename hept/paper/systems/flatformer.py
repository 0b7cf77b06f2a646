"""FlatFormer (Liu et al. 2023): sort points by windows of the plane, cut into equal groups, attend in each.

Layers alternate the axis along which windows are sorted first, and every other pair of layers shifts the
windows by half. As in the published adaptation, each axis is divided into equal parts.

Axes: H heads, N points, D dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hepdata.schema import PLANE
from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels import find_backend
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.ranks import sort_by
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.block_attention import attend_in_blocks
from hept.paper.systems.projections import Kernel, multi_head


class FlatFormerAttention(nn.Module):
    """Attention in groups of consecutive points, sorted by window.

    Args:
        block_size: Points per group.
        layer: Index of the layer, which sets axis and shift.
        n_windows: Windows per axis; None: 0.4 √n for a cloud of n points (31 at 6,000 points, 40 at 10,000).
        kernel: `dot` or `gauss`.
    """

    def __init__(
        self, *, block_size: int = 100, layer: int = 0, n_windows: int | None = None, kernel: Kernel = "dot"
    ) -> None:
        super().__init__()
        self.kernel: Kernel = kernel
        self.block_size, self.n_windows = block_size, n_windows
        self.axis, self.shift = layer % 2, 0.5 * (layer // 2 % 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        blocks = cut_into_blocks(clouds, self.block_size)
        with torch.no_grad():
            order = self.sort(coords, clouds).expand(query.shape[0], -1)
        if self.kernel == "gauss":
            return find_backend("auto")(Operands(query, key, value), Layout(order[None], order[None], blocks))
        return attend_in_blocks(query, key, value, order, order, blocks)[0]

    def sort(self, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N,) order by cloud, window along the axis, window across it, coordinate along the axis."""
        plane = coords[:, PLANE].float()
        low, high = _extent(plane, clouds)
        parts = self._count_windows(clouds).to(plane.dtype)[:, None]
        scaled = (plane - low) / (high - low).clamp(min=1e-12) * parts + self.shift
        window = scaled.floor().long().clamp(min=0)
        n_codes = int(parts.max()) + 2 if len(parts) else 2
        along, across = window[:, self.axis], window[:, 1 - self.axis]
        code = (clouds.index * n_codes + along) * n_codes + across
        return sort_by(code, plane[:, self.axis].contiguous(), n_codes=clouds.n_clouds * n_codes**2)

    def _count_windows(self, clouds: Clouds) -> Tensor:
        """(N,) number of windows per axis in the point's cloud."""
        if self.n_windows is not None:
            return torch.full_like(clouds.index, self.n_windows)
        return (0.4 * clouds.sizes.float().sqrt()).round().clamp(min=1).long()[clouds.index]


def _extent(plane: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    index = clouds.index[:, None].expand(plane.shape)
    low = plane.new_full((clouds.n_clouds, 2), torch.inf).scatter_reduce_(0, index, plane, "amin")
    high = plane.new_full((clouds.n_clouds, 2), -torch.inf).scatter_reduce_(0, index, plane, "amax")
    return low[clouds.index], high[clouds.index]


def make_flatformer(frame: Frame, width: int, kernel: Kernel = "dot") -> AttentionFactory:
    """Make FlatFormer with the sizes of a comparison: groups of 300 for blocks of 100 in three tables."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: FlatFormerAttention(block_size=3 * frame.block_size, layer=layer, kernel=kernel),
        kernel,
    )
