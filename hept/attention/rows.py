"""What every back end is given: queries, keys and values of the points, and where they lie in blocks.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P of a place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hept.attention.blocks import Blocks


@dataclass(frozen=True)
class Rows:
    """Queries, keys and values of one attention.

    A place c = √(2ω)ρ belongs to query and key alike: −½‖q−k‖² includes −½‖c_q−c_k‖². Its numbers may be
    large and close together, which float32 has to be helped with (see `hept.attention.distances`).

    Attributes:
        query: (H, N, M).
        key: (H, N, M).
        value: (H, N, V).
        place: (H, P, N), or None where there is none.
        step: (H, N) step of the grid for the place of a point; (H, 1) where all points share it.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    place: Tensor | None = None
    step: Tensor | None = None

    @property
    def n_places(self) -> int:
        """Dimensions of a place, 0 where there is none."""
        return self.place.shape[-2] if self.place is not None else 0

    def join_place(self) -> tuple[Tensor, Tensor]:
        """Queries and keys with their place behind them: (H, N, M+P) twice."""
        if self.place is None:
            return self.query, self.key
        return torch.cat([self.query, self.place.mT], -1), torch.cat([self.key, self.place.mT], -1)


@dataclass(frozen=True)
class Layout:
    """Which block each query and each key lies in.

    Attributes:
        query_order: (C, H, N) order of the queries in each table.
        key_order: (C, H, N) order of the keys.
        blocks: Cut of the sorted axis.
    """

    query_order: Tensor
    key_order: Tensor
    blocks: Blocks

    @property
    def n_tables(self) -> int:
        """Tables, over which the sums go."""
        return self.query_order.shape[0]
