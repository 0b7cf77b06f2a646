"""Blocks a few at a time, in memory that is used again: rows of points enter, kernel values of a group leave.

Queries and keys have one table of rows each, from which a group takes all that it needs in one look-up.
Behind the last point lies a row of zeros, for empty slots, which so add nothing to any sum.

Axes: N points, C tables, W logit columns, K blocks, S slots, G blocks of a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

# Kernel values of one group: 16 blocks of 100 and their rows fill the second-level caches of two cores.
# A GPU wants few and large launches instead.
GROUP_ELEMENTS = {"cpu": 160_000}
GROUP_ELEMENTS_ELSEWHERE = 1 << 25


class Room:
    """Memory that the heads use in turn: fresh memory costs more than what is computed in it.

    Args:
        like: Whose device and precision it has.

    Attributes:
        floor: The smallest logit whose exponential is a normal number of that precision.
    """

    def __init__(self, like: Tensor) -> None:
        self.like = like
        # Less would be subnormal, which costs a processor hundreds of cycles; it is far below EPSILON.
        self.floor = 0.86 * math.log(torch.finfo(like.dtype).tiny)
        self._taken: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """A tensor of any content, in the memory that had the name before."""
        size = math.prod(shape)
        memory = self._taken.get((name, dtype))
        if memory is None or memory.shape[0] < size:
            memory = self._taken[name, dtype] = self.like.new_empty(size, dtype=dtype)
        return memory[:size].view(shape)

    def join(self, name: str, columns: list[Tensor]) -> Tensor:
        """Columns (N, …) side by side, in the precision of the last, and a row of zeros behind: (N+1, …)."""
        n, widths = columns[0].shape[0], [part.shape[1] for part in columns]
        rows = self.take(name, columns[-1].dtype, n + 1, sum(widths))
        rows[-1] = 0.0
        ends = accumulate(widths)
        for part, width, end in zip(columns, widths, ends, strict=True):
            rows[:-1, end - width : end] = part
        return rows


@dataclass(frozen=True)
class Slots:
    """Where the points of one head lie in the blocks of its tables.

    Attributes:
        points: (C·K·S,) the point of each slot, N in an empty one.
        back: (C, N) the slot of each point in each table.
        shape: (C·K, S).
    """

    points: Tensor
    back: Tensor
    shape: tuple[int, int]

    @classmethod
    def lay(cls, order: Tensor, position: Tensor, is_filled: Tensor, slot: Tensor) -> Slots:
        """Lay out one head's order (C, N)."""
        n_tables, n_points = order.shape
        points = order.index_select(1, position.flatten()).view(n_tables, *position.shape)
        points = points.masked_fill_(~is_filled, n_points)
        table = torch.arange(n_tables, device=order.device).unsqueeze(1) * position.numel()
        back = torch.empty_like(order).scatter_(1, order, slot + table)
        return cls(points.flatten(), back, (n_tables * position.shape[0], position.shape[1]))

    def add_up(self, rows: Tensor) -> Tensor:
        """Rows of slots (C·K, S, D), added over the tables, at the points: (N, D)."""
        rows = rows.flatten(0, 1)
        summed = rows.index_select(0, self.back[0])
        for table in self.back[1:]:
            summed += rows.index_select(0, table)
        return summed


class Groups:
    """The blocks of one head, a few at a time, in reused memory.

    Args:
        query: (N+1, W and more) rows of the queries, which end with the logit columns.
        key: The same of the keys.
        width: Logit columns, W.
        size: Slots of a block, S.
        room: Memory.

    Attributes:
        least: The smallest kernel value.
    """

    def __init__(self, query: Tensor, key: Tensor, *, width: int, size: int, room: Room) -> None:
        self.query, self.key, self.width, self.size, self.room = query, key, width, size, room
        elements = GROUP_ELEMENTS.get(query.device.type, GROUP_ELEMENTS_ELSEWHERE)
        self.n_blocks = max(1, elements // size**2)
        self.least = query.new_full((64,), room.floor).exp_()[0]

    def cut(self, q_slots: Slots, k_slots: Slots, *rows: Tensor) -> Iterator[tuple[Any, ...]]:
        """Each group with its points on both sides, and its part of the rows of slots (C·K, S, …)."""
        n = self.n_blocks
        points = [torch.split(side.points, n * self.size) for side in (q_slots, k_slots)]
        groups: dict[int, Group] = {}
        for parts in zip(*points, *(torch.split(each, n) for each in rows), strict=True):
            length = parts[-1].shape[0]
            # All groups but the last are alike.
            if length not in groups:
                groups[length] = Group(self, length)
            yield groups[length], *parts


class Group:
    """Room for the rows and kernel values of so many blocks.

    Attributes:
        q: (G, S, …) rows of the queries.
        k: (G, S, …) rows of the keys.
        product: (G, S, S) of any content.
    """

    def __init__(self, of: Groups, length: int) -> None:
        self.of, dtype = of, of.query.dtype
        self.q = of.room.take("q", dtype, length, of.size, of.query.shape[1])
        self.k = of.room.take("k", dtype, length, of.size, of.key.shape[1])
        self.product = of.room.take("product", dtype, length, of.size, of.size)
        self._weight = of.room.take("weight", dtype, length, of.size, of.size)
        # Views that every group needs, made once: each costs as much as a small operation.
        self._q_rows, self._k_rows = self.q.flatten(0, 1), self.k.flatten(0, 1)
        self._q_logit, self._k_logit = self.q[..., -of.width :], self.k[..., -of.width :].mT

    def weigh(self, q_points: Tensor, k_points: Tensor) -> Tensor:
        """Kernel values (G, S, S) of the points in the slots (G·S,), whose rows are laid down."""
        # Several times faster than indexing by the same integers.
        torch.index_select(self.of.query, 0, q_points, out=self._q_rows)
        torch.index_select(self.of.key, 0, k_points, out=self._k_rows)
        logit = torch.bmm(self._q_logit, self._k_logit, out=self._weight)
        return logit.clamp_(self.of.room.floor, 0.0).exp_()
