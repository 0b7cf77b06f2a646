"""Which clouds are in which batch: decided before anything is read.

An epoch is a permutation of the split, cut into steps and dealt to ranks. It depends on the seed, the epoch
and the fields below only: any number of workers gives the same batches, and a run resumes by skipping.
"""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        for name, value, least in (
            ("batch_size", self.batch_size, 1),
            ("world_size", self.world_size, 1),
            ("buffer", self.buffer, 1),
            ("seed", self.seed, 0),
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

    def n_steps(self) -> int:
        """Batches per rank, the same for all ranks."""
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


def _spread(n: int, parts: int) -> list[int]:
    return [n // parts + (1 if i < n % parts else 0) for i in range(parts)]


def _out_of_range(name: str, value: int, expected: str) -> InputError:
    return InputError(f"loader, {name}", found=str(value), expected=expected, remedy="change the argument")
