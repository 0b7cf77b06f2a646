"""HEPT attention (paper, Sec. 4 and Appendix C): hidden features and coordinates enter, updated features leave.

    q = [W_Q x ‖ √(2ω) ρ],  k = [W_K x ‖ √(2ω) ρ],  v = W_V x
    out_u = Σ_i Σ_{w ∈ block_i(u)} exp(−½‖q_u − k_w‖²) v_w  /  Σ_i Σ_{w ∈ block_i(u)} exp(−½‖q_u − k_w‖²)

with one sum over the tables i and one normalisation.

Axes: N points, B clouds, H heads, C tables, D dimensions of a head's query, A AND codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hept.blocks import cut_into_blocks
from hept.clouds import Clouds
from hept.hashing import bucket_of_rank, draw_buckets, join_codes, rank_in_cloud, sort_by
from hept.kernels_grouped import attend_grouped

# ω = Σ exp(min(Σ w, 50)) over so many terms a coordinate, as in the published weights.
TERMS_OF_OMEGA = 10


class HEPTAttention(nn.Module):
    """Multi-head attention inside blocks of points that OR & AND hashing has put side by side.

    Args:
        hidden_dim: Width of the features that enter and leave; each head has as many dimensions.
        coords_dim: Number of coordinates ρ of a point.
        n_heads: Attention heads.
        block_size: Points of a block, S.
        n_tables: OR tables, m₁.
        n_regions: Product of the numbers of AND buckets, G.
        and_coords: Which coordinates feed the AND codes; none for OR-only hashing.

    Raises:
        ValueError: For settings that fit no cloud.
    """

    def __init__(
        self,
        hidden_dim: int,
        coords_dim: int,
        *,
        n_heads: int = 8,
        block_size: int = 100,
        n_tables: int = 3,
        n_regions: float = 150,
        and_coords: Sequence[int] = (0, 1),
    ) -> None:
        super().__init__()
        self.n_heads, self.block_size, self.n_tables = n_heads, block_size, n_tables
        self.and_coords = tuple(and_coords)
        width = n_heads * hidden_dim
        self.w_q = nn.Linear(hidden_dim, width, bias=False)
        self.w_k = nn.Linear(hidden_dim, width, bias=False)
        self.w_v = nn.Linear(hidden_dim, width, bias=False)
        self.out_linear = nn.Linear(width, hidden_dim)
        # The first two coordinates, η and φ, share one ω: distances in their plane stay round.
        self.omega_of_coord = (0, *range(max(coords_dim - 1, 0)))[:coords_dim]
        n_omega = max(self.omega_of_coord, default=-1) + 1
        bound = 1 / math.sqrt(max(n_omega, 1) * TERMS_OF_OMEGA)
        self.omega_terms = nn.Parameter(
            torch.empty(n_heads, hidden_dim, n_omega, TERMS_OF_OMEGA).uniform_(-bound, bound)
        )
        self.register_buffer("alpha", torch.randn(n_heads, hidden_dim + coords_dim, n_tables))
        self.register_buffer("regions", draw_buckets(n_regions, len(self.and_coords), n_tables, n_heads))
        self.max_buckets = [math.ceil(2 * n_regions) + 1] * len(self.and_coords)

    alpha: Tensor
    regions: Tensor

    def omega(self) -> Tensor:
        """The weight ω > 0 of each coordinate's squared distance: (H, coords_dim)."""
        omega = self.omega_terms.sum(1).clamp(max=50).exp().sum(-1)
        return omega[:, list(self.omega_of_coord)]

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """Attend within clouds.

        Args:
            x: (N, hidden_dim).
            coords: (N, coords_dim).
            clouds: Which points belong together.

        Returns:
            (N, hidden_dim).
        """
        position = (2 * self.omega()).sqrt()[:, None] * coords  # (H, N, coords_dim)
        query = torch.cat([self._split(self.w_q(x)), position], -1)  # (H, N, D)
        key = torch.cat([self._split(self.w_k(x)), position], -1)
        value = self._split(self.w_v(x))
        blocks = cut_into_blocks(clouds, self.block_size)
        with torch.no_grad():
            code = self._and_code(coords, clouds)
            query_order = sort_by(code, self._hash(query))
            key_order = sort_by(code, self._hash(key))
        out = attend_grouped(query, key, value, query_order, key_order, blocks)
        return self.out_linear(out.movedim(0, 1).flatten(1))  # type: ignore[no-any-return]

    def _split(self, rows: Tensor) -> Tensor:
        return rows.unflatten(1, (self.n_heads, -1)).movedim(1, 0)  # (H, N, hidden_dim)

    def _hash(self, z: Tensor) -> Tensor:
        """E²LSH without buckets, a·z: (C, H, N)."""
        return (self.alpha.mT @ z.mT).movedim(1, 0).contiguous()

    def _and_code(self, coords: Tensor, clouds: Clouds) -> Tensor:
        rank = rank_in_cloud(coords.mT[list(self.and_coords)], clouds)  # (A, N)
        codes = [
            bucket_of_rank(rank[a], clouds.sizes, self.regions[:, a], clouds)
            for a in range(len(self.and_coords))
        ]
        return join_codes(codes, self.max_buckets, clouds)
