"""Blocks a few at a time, in memory that is used again: rows of points enter, kernel values of a group leave.

Queries and keys have one table of rows each, from which a group takes all that it needs in one look-up.
Behind the last point lies a row of zeros, for empty slots, which so add nothing to any sum.

Axes: N points, C tables, W logit columns, K blocks, S slots, G blocks of a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from hept.attention.blocks import Blocks
from hept.attention.distances import Selection, select_columns

# Kernel values of one group: 16 blocks of 100 and their rows fill the second-level caches of two cores.
# A GPU wants few and large launches instead.
GROUP_ELEMENTS = {"cpu": 160_000}
GROUP_ELEMENTS_ELSEWHERE = 1 << 25
# Rows of so many columns, or a multiple, are copied in half the time of others.
ALIGNED = 4


class Room:
    """Memory that the heads use in turn: fresh memory costs more than what is computed in it.

    Args:
        like: Whose device and precision it has.
        sizes: Elements by name that are set aside at once. A thread that ends gives its memory back to the
            system; what the thread that calls it has set aside stays with the process.

    Attributes:
        floor: The smallest logit whose exponential is a normal number of that precision.
    """

    def __init__(self, like: Tensor, sizes: Mapping[str, int]) -> None:
        self.like = like
        # Less would be subnormal, which costs a processor hundreds of cycles; it is far below EPSILON.
        self.floor = 0.86 * math.log(torch.finfo(like.dtype).tiny)
        self._selections: dict[tuple[int, int, torch.dtype], Selection] = {}
        self._taken = {(name, like.dtype): like.new_empty(size) for name, size in sizes.items()}

    def take(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """A tensor of any content, in the memory that had the name before."""
        size = math.prod(shape)
        memory = self._taken.get((name, dtype))
        if memory is None or memory.shape[0] < size:
            memory = self._taken[name, dtype] = self.like.new_empty(size, dtype=dtype)
        return memory[:size].view(shape)

    def select(self, n_places: int, *, n_sharp: int, like: Tensor) -> Selection:
        """Which parts make the logit columns, see `select_columns`."""
        name = n_places, n_sharp, like.dtype
        if name not in self._selections:
            self._selections[name] = select_columns(n_places, n_sharp=n_sharp, like=like)
        return self._selections[name]

    def join(self, name: str, columns: list[Tensor | tuple[Tensor, Tensor]]) -> Tensor:
        """Columns side by side, and a row of zeros behind them: (N+1, their number or some more).

        Args:
            name: Of the memory.
            columns: (N, ·) each, or the two factors (N, R) and (R, ·) of their product.
        """
        shapes = [
            each.shape if isinstance(each, Tensor) else (each[0].shape[0], each[1].shape[1])
            for each in columns
        ]
        n, width = shapes[0][0], sum(shape[1] for shape in shapes)
        dtype = columns[0].dtype if isinstance(columns[0], Tensor) else columns[0][0].dtype
        rows = self.take(name, dtype, n + 1, width + -width % ALIGNED)
        rows[n:] = 0.0
        begin = 0
        for each, shape in zip(columns, shapes, strict=True):
            into = rows[:n, begin : begin + shape[1]]
            begin += shape[1]
            if isinstance(each, Tensor):
                into.copy_(each)
            else:
                torch.mm(*each, out=into)
        return rows


@dataclass(frozen=True)
class Slots:
    """Where the points of one head lie in the blocks of its tables.

    Attributes:
        points: (C·K·S,) the point of each slot, N in an empty one.
        back: (N, C) the slots of each point.
        shape: (C·K, S).
    """

    points: Tensor
    back: Tensor
    shape: tuple[int, int]

    @classmethod
    def lay(cls, order: Tensor, blocks: Blocks) -> Slots:
        """Lay out one head's order (C, N), of any integers."""
        n_tables, n_points = order.shape
        n_blocks, size = blocks.position.shape
        points = order.gather(1, blocks.position.view(1, -1).expand(n_tables, -1))
        points.masked_fill_(~blocks.is_filled.view(-1), n_points)
        table = torch.arange(n_tables, device=order.device).unsqueeze(1) * (n_blocks * size)
        back = blocks.slot.new_empty(n_points, n_tables)
        back.mT.scatter_(1, order.long(), blocks.slot + table)
        return cls(points.flatten(), back, (n_tables * n_blocks, size))

    def add_up(self, rows: Tensor) -> Tensor:
        """Rows of slots (C·K, S, D), added over the tables, at the points: (N, D)."""
        return functional.embedding_bag(self.back, rows.flatten(0, 1), mode="sum")


class Groups:
    """The blocks of one head, a few at a time, in reused memory.

    Args:
        query: (N+1, W and more) rows of the queries, which begin with the logit columns.
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
        self._q_logit, self._k_logit = self.q[..., : of.width], self.k[..., : of.width].mT
        self._views: dict[tuple[bool, int, int], Tensor] = {}

    def of_queries(self, columns: slice) -> Tensor:
        """Those columns of the queries' rows (G, S, ·)."""
        return self._view(self.q, True, columns)

    def of_keys(self, columns: slice) -> Tensor:
        """Those columns of the keys' rows (G, S, ·)."""
        return self._view(self.k, False, columns)

    def _view(self, rows: Tensor, is_query: bool, columns: slice) -> Tensor:
        name = (is_query, columns.start, columns.stop)
        if name not in self._views:
            self._views[name] = rows[..., columns]
        return self._views[name]

    def weigh(self, q_points: Tensor, k_points: Tensor) -> Tensor:
        """Kernel values (G, S, S) of the points in the slots (G·S,), whose rows are laid down."""
        # Several times faster than indexing by the same integers.
        torch.index_select(self.of.query, 0, q_points, out=self._q_rows)
        torch.index_select(self.of.key, 0, k_points, out=self._k_rows)
        logit = torch.bmm(self._q_logit, self._k_logit, out=self._weight)
        return logit.clamp_(self.of.room.floor, 0.0).exp_()
