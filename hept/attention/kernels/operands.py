"""Arguments of every kernel: queries, keys and values of the points, and their layout in blocks.

Axes: N points, H heads, C tables, M dimensions of a query, V of a value, P coordinates, K blocks, S slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Operands:
    """Queries, keys and values of one attention.

    The scaled coordinates c = √(2ω)ρ are part of both query and key: −½‖q−k‖² includes −½‖c_q−c_k‖². They
    may be large with small differences, so kernels must not expand this square in float32.

    Attributes:
        query: (H, N, M).
        key: (H, N, M).
        value: (H, N, V).
        coords: (H, P, N), or None if the kernel uses no coordinates.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    coords: Tensor | None = None

    @property
    def n_coords(self) -> int:
        """Number of scaled coordinates, possibly 0."""
        return self.coords.shape[-2] if self.coords is not None else 0

    def join_coords(self) -> tuple[Tensor, Tensor]:
        """Queries and keys with their coordinates appended: (H, N, M+P) twice."""
        if self.coords is None:
            return self.query, self.key
        return torch.cat([self.query, self.coords.mT], -1), torch.cat([self.key, self.coords.mT], -1)


@dataclass(frozen=True)
class Blocks:
    """Assignment of the sorted positions of the point axis to slots of blocks.

    Attributes:
        position: (K, S) int64, the sorted position in each slot. Those of a block are consecutive; an empty
            slot repeats one of its block.
        is_filled: (K, S) bool, False for empty slots, which must count neither as query nor as key.
        slot: (N,) int64, the slot k·S + s of each sorted position.
    """

    position: Tensor
    is_filled: Tensor
    slot: Tensor


@dataclass(frozen=True)
class Layout:
    """Assignment of queries and keys to blocks.

    Attributes:
        query_order: (C, H, N) order of the queries in each table.
        key_order: (C, H, N) order of the keys.
        blocks: Partition of the sorted axis.
    """

    query_order: Tensor
    key_order: Tensor
    blocks: Blocks

    @property
    def n_tables(self) -> int:
        """Number of hash tables."""
        return self.query_order.shape[0]
