"""Which clouds are in which batch: decided before anything is read.

An epoch is a permutation of the split, cut into steps and dealt to ranks. It depends on the seed, the epoch
and the fields below only: any number of workers gives the same batches, and a run resumes by skipping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError


@dataclass(frozen=True)
class EpochPlan:
    """How a split is shuffled, cut and dealt.

    Attributes:
        shard_rows: Clouds per shard.
        batch_size: Clouds per batch and rank.
        shuffle: Whether the order changes with the epoch.
        seed: Of the shuffling.
        buffer: Largest distance that shuffling moves a cloud in the order of shards, so that files are read
            nearly in order.
        rank: Which part of every step this process gets.
        world_size: Processes that share the epoch.
        batch_points: Points per batch and rank, in place of `batch_size`: as many clouds as fit.
        cloud_points: Points of every cloud, for `batch_points`.

    Raises:
        InputError: A number is out of range, or there are fewer clouds than ranks.
    """

    shard_rows: tuple[int, ...]
    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    buffer: int = 1024
    rank: int = 0
    world_size: int = 1
    batch_points: int | None = None
    cloud_points: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value, least in (
            ("batch_size", self.batch_size, 1),
            ("world_size", self.world_size, 1),
            ("buffer", self.buffer, 1),
            ("seed", self.seed, 0),
            ("batch_points", 1 if self.batch_points is None else self.batch_points, 1),
        ):
            if value < least:
                raise _out_of_range(name, value, f"at least {least}")
        if not 0 <= self.rank < self.world_size:
            raise _out_of_range("rank", self.rank, f"0 … {self.world_size - 1}")
        if 0 < self.n_clouds < self.world_size:
            raise InputError(
                "loader",
                found=f"{self.n_clouds} clouds for {self.world_size} ranks",
                expected="at least one cloud per rank",
                remedy="use fewer ranks or a larger split",
            )

    @property
    def n_clouds(self) -> int:
        """Clouds in the epoch, over all ranks."""
        return sum(self.shard_rows)

    def n_steps(self, epoch: int = 0) -> int:
        """Batches per rank, the same for all ranks; with `batch_points`, epochs may differ by a few."""
        if self.batch_points is not None:
            return len(self.batches(epoch))
        return len(self.batch_sizes()) // self.world_size

    def batch_sizes(self) -> NDArray[np.int64]:
        """Clouds in every batch, step by step, rank by rank.

        All steps but the last are full. The clouds that remain are spread over the ranks; where they are
        fewer than ranks, together with the step before, so that no rank has an empty batch.
        """
        per_step = self.batch_size * self.world_size
        full, rest = divmod(self.n_clouds, per_step)
        if rest == 0:
            tail: list[int] = []
        elif rest >= self.world_size:
            tail = _spread(rest, self.world_size)
        else:
            full -= 1
            n_tail = self.world_size * min(2, self.batch_size)
            tail = _spread(per_step + rest, n_tail)
        return np.array([self.batch_size] * (full * self.world_size) + tail, dtype=np.int64)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Cloud indices of every batch of this rank."""
        if self.batch_points is not None:
            steps = fill_steps(self.order(epoch), self.cloud_points, self.batch_points, self.world_size)
            return [step[self.rank] for step in steps]
        limits = np.cumsum(self.batch_sizes())[:-1]
        if not self.n_clouds:
            return []
        return list(np.split(self.order(epoch), limits)[self.rank :: self.world_size])

    def order(self, epoch: int) -> NDArray[np.int64]:
        """All clouds of the split, in the order in which the epoch visits them."""
        starts = np.concatenate([[0], np.cumsum(self.shard_rows)]).astype(np.int64)
        if not self.shuffle:
            return np.arange(starts[-1])
        random = np.random.default_rng([self.seed, epoch])
        if self.buffer >= self.n_clouds:
            return random.permutation(self.n_clouds)
        shards = random.permutation(len(self.shard_rows))
        stream = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in shards])
        # Sorting by position plus a random delay moves no cloud further than the buffer.
        delay = random.random(len(stream)) * self.buffer
        return stream[np.argsort(np.arange(len(stream)) + delay, kind="stable")]


def fill_steps(
    order: NDArray[np.int64], points: Sequence[int], batch_points: int, world_size: int
) -> list[list[NDArray[np.int64]]]:
    """Deal clouds, in their order, to steps of one batch a rank that hold at most `batch_points` each.

    An empty cloud counts as one point, so that no batch holds any number of them.

    The next cloud goes to the rank with the fewest points, so that ranks get equal work; where it does not
    fit there, the step is full. A larger cloud is a batch by itself. Where too few clouds are left for all
    ranks at the end, the step before is dealt again with them; it may then hold more than fits.
    """
    steps: list[list[list[int]]] = []
    loads: list[int] = []
    for cloud in order.tolist():
        load = max(points[cloud], 1)
        rank = loads.index(min(loads)) if loads else 0
        if not loads or (loads[rank] and loads[rank] + load > batch_points):
            steps.append([[] for _ in range(world_size)])
            loads, rank = [0] * world_size, 0
        steps[-1][rank].append(cloud)
        loads[rank] += load
    if len(steps) > 1 and not all(steps[-1]):
        last, before = steps.pop(), steps.pop()
        clouds = [cloud for step in (before, last) for batch in step for cloud in batch]
        steps.append(_deal(clouds, points, world_size))
    return [[np.array(batch, dtype=np.int64) for batch in step] for step in steps]


def _deal(clouds: list[int], points: Sequence[int], world_size: int) -> list[list[int]]:
    """Clouds for every rank, the largest first and to the rank with the fewest points."""
    batches: list[list[int]] = [[] for _ in range(world_size)]
    loads = [0] * world_size
    for cloud in sorted(clouds, key=lambda each: -points[each]):
        rank = loads.index(min(loads))
        batches[rank].append(cloud)
        loads[rank] += max(points[cloud], 1)
    return batches


def _spread(n: int, parts: int) -> list[int]:
    return [n // parts + (1 if i < n % parts else 0) for i in range(parts)]


def _out_of_range(name: str, value: int, expected: str) -> InputError:
    return InputError(f"loader, {name}", found=str(value), expected=expected, remedy="change the argument")
