"""SMYRF (Daras et al. 2020): transforms turn inner products into distances, E²LSH sorts both sides.

Queries and keys are sorted separately and cut into equal blocks, m₁ times: OR-only hashing without alignment.
The Gaussian kernel depends on distances already and needs no transforms.

Axes: H heads, N points, D dimensions, C tables.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels import find_backend
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.ranks import sort_by
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.block_attention import attend_in_blocks, combine
from hept.paper.systems.projections import Kernel, multi_head


class SmyrfAttention(nn.Module):
    """Balanced clusters by E²LSH values; queries and keys are sorted separately.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        block_size: Points per cluster.
        n_tables: Rounds of hashing.
        kernel: `dot` or `gauss`.
    """

    def __init__(
        self, n_heads: int, dim: int, *, block_size: int = 100, n_tables: int = 3, kernel: Kernel = "dot"
    ) -> None:
        super().__init__()
        self.kernel: Kernel = kernel
        self.block_size = block_size
        self.register_buffer("alpha", torch.randn(n_tables, n_heads, dim + 2 * (kernel == "dot")))

    alpha: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        blocks = cut_into_blocks(clouds, self.block_size)
        with torch.no_grad():
            hashed = transform(query, key, clouds) if self.kernel == "dot" else (query, key)
            orders = [sort_by_projection(z, self.alpha, clouds) for z in hashed]  # (C, H, N) each
        if self.kernel == "gauss":
            return find_backend("auto")(Operands(query, key, value), Layout(orders[0], orders[1], blocks))
        joined = [
            attend_in_blocks(query, key, value, by_query, by_key, blocks)
            for by_query, by_key in zip(*orders, strict=True)
        ]
        return combine([out for out, _ in joined], [total for _, total in joined])


def sort_by_projection(z: Tensor, alpha: Tensor, clouds: Clouds) -> Tensor:
    """Sort the points (H, N, D) of each cloud by the E²LSH values a·z with a from (C, H, D): (C, H, N)."""
    values = torch.einsum("chd,hnd->chn", alpha.to(z.dtype), z).contiguous()
    return sort_by(clouds.index.expand(values.shape), values, n_codes=clouds.n_clouds)


def transform(query: Tensor, key: Tensor, clouds: Clouds) -> tuple[Tensor, Tensor]:
    """F(q), G(k) with ‖F(q) − G(k)‖² = 2(M_Q² + M_K²) − 2q·k, where M are the largest norms in the cloud.

    F(q) = [q, 0, √(M² − ‖q‖²)] and G(k) = [k, √(M² − ‖k‖²), 0] with M² = M_Q² + M_K².
    """
    squared = [z.square().sum(-1) for z in (query, key)]  # (H, N) each
    largest = sum((_largest(norm, clouds) for norm in squared), start=query.new_zeros(()))
    rest = [(largest - norm).clamp(min=0).sqrt()[..., None] for norm in squared]
    zero = torch.zeros_like(rest[0])
    return torch.cat([query, zero, rest[0]], -1), torch.cat([key, rest[1], zero], -1)


def _largest(values: Tensor, clouds: Clouds) -> Tensor:
    most = values.new_zeros(values.shape[0], clouds.n_clouds)
    most.scatter_reduce_(1, clouds.index.expand(values.shape), values, "amax")
    return most[:, clouds.index]


def make_smyrf(frame: Frame, width: int, kernel: Kernel = "dot") -> AttentionFactory:
    """Make SMYRF with the sizes of a comparison."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: SmyrfAttention(
            frame.n_heads, dim, block_size=frame.block_size, n_tables=frame.n_tables, kernel=kernel
        ),
        kernel,
    )
