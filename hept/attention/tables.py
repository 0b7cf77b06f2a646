"""OR & AND hash tables (paper, Sec. 4.2 and 4.3): queries, keys and ranks enter, their orders leave.

Table i orders the points of a cloud by the tuple (AND codes, base hash value):

    base     L⁽ⁱ¹⁾ = a·z, E²LSH without buckets, of the query or key z
    codes    quantile buckets of coordinates, the same for query and key of a point, which so stay aligned,
             and, by option, of further projections of z

Axes: N points, B clouds, H heads, C tables, D dimensions, M of them without the place, A AND codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.geometry import CoordRank
from hept.attention.hashing import (
    bucket_of_rank,
    count_before,
    draw_buckets,
    joint_rank_in_cloud,
    rank_in_cloud,
    rotate_rank,
    sort_by,
)
from hept.attention.periodic import turn_of
from hept.attention.sort_keys import order_both
from hept.triton_devices import can_run


class HashTables(nn.Module):
    """The random projections, bucket numbers and cuts of the C tables of H heads.

    Args:
        dim: Dimensions of queries and keys.
        n_heads: Attention heads.
        n_tables: OR tables, m₁.
        n_regions: Product of the numbers of buckets of all AND codes, G.
        and_coords: Coordinates that feed AND codes.
        n_hidden_codes: AND codes from projections of queries and keys.
        periods: Period by coordinate, for those that are angles; each table cuts their circle elsewhere.
    """

    alpha: Tensor  # (H, D, C)
    and_alpha: Tensor | None  # (H, D, C·A)
    regions: Tensor  # (C, A, H): coordinates, then projections
    cuts: Tensor | None  # (C, coordinates of AND codes, H)

    def __init__(
        self,
        dim: int,
        *,
        n_heads: int,
        n_tables: int,
        n_regions: float,
        and_coords: Sequence[int],
        n_hidden_codes: int,
        periods: Mapping[int, float],
    ) -> None:
        super().__init__()
        self.n_tables, self.n_regions, self.n_hidden_codes = n_tables, n_regions, n_hidden_codes
        self.and_coords, self.periods = tuple(and_coords), dict(periods)
        self.n_codes = len(self.and_coords) + n_hidden_codes
        self.register_buffer("alpha", torch.randn(n_heads, dim, n_tables))
        and_alpha = torch.randn(n_heads, dim, n_tables * n_hidden_codes) if n_hidden_codes else None
        self.register_buffer("and_alpha", and_alpha)
        self.register_buffer("regions", draw_buckets(n_regions, self.n_codes, n_tables, n_heads))
        is_cut = any(column in self.periods for column in self.and_coords)
        self.register_buffer("cuts", torch.rand(n_tables, len(self.and_coords), n_heads) if is_cut else None)

    @torch.no_grad()
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        ranks: Sequence[CoordRank],
        clouds: Clouds,
        place: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Order queries and keys in each table and head.

        Args:
            query: (H, N, M), the first of the D dimensions.
            key: (H, N, M); the same object as `query` where they are tied.
            ranks: What `rank_coords` makes of the coordinates.
            clouds: Which points belong together.
            place: (H, D−M, N), the dimensions that query and key of a point share.

        Returns:
            Two permutations of the points (C, H, N), in which clouds lie one behind the other.
        """
        if self._can_fuse(query, ranks, clouds):
            q_hash, k_hash = (_project(self.alpha, z, place) for z in (query, key))
            rank, shift = torch.stack([each.rank for each in ranks]), self._shift(ranks, clouds)
            return order_both(q_hash, k_hash, rank, shift, self.regions, clouds.index, clouds.sizes)
        codes = [(code, code) for code in self._codes_of_coords(ranks, clouds)]
        if self.and_alpha is not None:
            q, k = (_project(self.and_alpha, z, place) for z in (query, key))
            codes += self._codes_of_projections(q, k, clouds)
        joined = self._join([code for code, _ in codes], clouds)
        query_order = self._sort(joined, _project(self.alpha, query, place), clouds)
        if key is query:
            return query_order, query_order
        if self.and_alpha is not None:
            joined = self._join([code for _, code in codes], clouds)
        return query_order, self._sort(joined, _project(self.alpha, key, place), clouds)

    @torch.no_grad()
    def rank_coords(self, coords: Tensor, clouds: Clouds) -> tuple[CoordRank, ...]:
        """Rank the points along the coordinates (N, D) that feed AND codes; the same for all layers."""
        ranks = []
        for column in self.and_coords:
            coord = coords.select(1, column)
            turn = turn_of(coord, self.periods[column]) if column in self.periods else None
            ranks.append(CoordRank(rank_in_cloud(coord if turn is None else turn, clouds), turn))
        return tuple(ranks)

    def _can_fuse(self, query: Tensor, ranks: Sequence[CoordRank], clouds: Clouds) -> bool:
        """Whether one kernel makes the sort keys: on a GPU, of coordinates alone, and in 63 bits."""
        is_plain = self.and_alpha is None and len(ranks) > 0 and query.device.type != "cpu"
        return is_plain and self._count_codes(clouds) < 2**31 and can_run(query)

    def _shift(self, ranks: Sequence[CoordRank], clouds: Clouds) -> Tensor | None:
        """By how much each table and head rotates ranks on a circle: (A, C, H, B)."""
        if self.cuts is None:
            return None
        shifts = [
            count_before(each.turn, self.cuts.select(1, i), clouds)
            if each.turn is not None
            else self.cuts.new_zeros(*self.cuts.select(1, i).shape, clouds.n_clouds, dtype=torch.int64)
            for i, each in enumerate(ranks)
        ]
        return torch.stack(shifts)

    def _count_codes(self, clouds: Clouds) -> float:
        """What joined codes stay below."""
        return float(clouds.n_clouds * self.n_regions * 2**self.n_codes)

    def _join(self, codes: list[Tensor], clouds: Clouds) -> Tensor:
        """The tuple (cloud, last code, …, first code) as one number of mixed radix: (C, H, N)."""
        outer = clouds.index.expand(self.n_tables, self.alpha.shape[0], -1)
        if clouds.n_clouds == 1 and codes:
            *codes, outer = codes
        for i in reversed(range(len(codes))):
            outer = outer * (self.regions.select(1, i).long() + 1).unsqueeze(-1) + codes[i]
        return outer

    def _sort(self, joined: Tensor, base: Tensor, clouds: Clouds) -> Tensor:
        """The order (C, H, N) by codes (C, H, N) and base hash values (H, C, N)."""
        return sort_by(joined, base.movedim(1, 0), n_codes=self._count_codes(clouds))

    def _codes_of_coords(self, ranks: Sequence[CoordRank], clouds: Clouds) -> list[Tensor]:
        """One (C, H, N) for each of `and_coords`."""
        codes = []
        for i, (rank, turn) in enumerate((each.rank, each.turn) for each in ranks):
            if turn is not None and self.cuts is not None:
                rank = rotate_rank(rank, turn, self.cuts.select(1, i), clouds)
            codes.append(bucket_of_rank(rank, clouds.sizes, self.regions.select(1, i), clouds))
        return codes

    def _codes_of_projections(
        self, query: Tensor, key: Tensor, clouds: Clouds
    ) -> list[tuple[Tensor, Tensor]]:
        """For each of A codes that of the queries and that of the keys, from quantiles of both together."""
        q, k = (torch.unflatten(z, 1, (self.n_tables, -1)) for z in (query, key))
        ranks = joint_rank_in_cloud(q, k, clouds)  # (H, C, A, N) twice
        codes = []
        for i in range(self.n_hidden_codes):
            buckets = self.regions.select(1, len(self.and_coords) + i)
            pair = [
                bucket_of_rank(r.select(2, i).movedim(1, 0), 2 * clouds.sizes, buckets, clouds) for r in ranks
            ]
            codes.append((pair[0], pair[1]))
        return codes


def _project(directions: Tensor, z: Tensor, place: Tensor | None) -> Tensor:
    """Queries or keys (H, N, M) with their place, on directions (H, D, ·): (H, ·, N)."""
    # Few long rows, not many short ones: half the time.
    rows = directions.mT.contiguous()
    hashed = rows.narrow(2, 0, z.shape[-1]) @ z.mT
    return hashed if place is None else hashed.baddbmm(rows.narrow(2, z.shape[-1], place.shape[1]), place)
