"""What every kernel is given: queries, keys and values of the points, and how blocks hold them.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Operands:
    """Queries, keys and values of one attention.

    The scaled coordinates c = √(2ω)ρ belong to query and key alike: −½‖q−k‖² includes −½‖c_q−c_k‖². They may
    be large and close together, so that kernels must not expand this square in float32.

    Attributes:
        query: (H, N, M).
        key: (H, N, M).
        value: (H, N, V).
        coords: (H, P, N), or None where queries and keys hold everything.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    coords: Tensor | None = None

    @property
    def n_coords(self) -> int:
        """Number of scaled coordinates, 0 where there are none."""
        return self.coords.shape[-2] if self.coords is not None else 0

    def join_coords(self) -> tuple[Tensor, Tensor]:
        """Queries and keys with their coordinates appended: (H, N, M+P) twice."""
        if self.coords is None:
            return self.query, self.key
        return torch.cat([self.query, self.coords.mT], -1), torch.cat([self.key, self.coords.mT], -1)


@dataclass(frozen=True)
class Blocks:
    """Which slots of which blocks hold the sorted positions of the point axis.

    Attributes:
        position: (K, S) int64, the sorted position that each slot holds; an empty slot repeats one of its
            own block.
        is_filled: (K, S) bool, False for empty slots, which must count neither as query nor as key.
        slot: (N,) int64, the slot k·S + s of each sorted position.
    """

    position: Tensor
    is_filled: Tensor
    slot: Tensor


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
        """Number of hash tables, over which the sums go."""
        return self.query_order.shape[0]
