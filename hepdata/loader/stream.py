"""Batches in the order of a plan, read ahead by threads.

Threads, not processes: decompression, checksums and copies release the GIL, so that threads read in parallel
and pass on tensors without copying them through shared memory.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.loader.augment import Augmentation
from hepdata.loader.batch import Batch
from hepdata.loader.collate import BatchLayout, collate
from hepdata.loader.epoch_plan import EpochPlan

if TYPE_CHECKING:
    from hepdata.loader.split import Split


class Loader:
    """An epoch of batches each time it is iterated over; made by `Split.loader`.

    The arguments of `Split.loader`:
        batch_size: Clouds per batch (and rank).
        workers: Threads that read ahead; with 0, one thread still reads while the caller works.
        shuffle: Whether every epoch has another order; otherwise the stored order.
        seed: Of the shuffling.
        features: Inputs of the feature matrix, in this order: names of columns, mappings such as
            `{"column": "phi", "scale": 0.318}`, or `ModelInput`s; the dataset's own list where not given.
            See `hepdata.inputs`.
        coords: Inputs of the coordinates, likewise.
        select: Read only these columns. The feature matrix then has those of them that are stored features,
            unless `features` is given.
        scaled: Whether features and coordinates are multiplied by the scales of their inputs.
        pairs: Whether pair lists are read.
        rank, world_size: Which part of the epoch this process gets. Over all ranks every cloud comes once,
            and all ranks have the same number of steps.
        buffer: How far shuffling moves a cloud in the shuffled order of shards.
        prefetch: Batches read ahead; 0 reads in the caller's thread.
        pin_memory: Whether batches are in page-locked memory, if there is a GPU.
        augment: Random changes of every cloud (`hepdata.loader.augment.Augmentation`), others in every epoch.
        batch_points: Points per batch and rank, instead of `batch_size`: as many clouds as fit, at least one.

    At most `prefetch + max(workers, 1) + 1` batches are in memory at a time.
    """

    def __init__(
        self,
        split: Split,
        layout: BatchLayout,
        plan: EpochPlan,
        *,
        augment: Augmentation | None = None,
        workers: int = 0,
        prefetch: int = 2,
        pin_memory: bool = False,
    ) -> None:
        self.split = split
        self.layout = layout
        self.plan = plan
        self.augment = augment or None
        self.workers = workers
        self.prefetch = prefetch
        self.pin_memory = pin_memory and torch.cuda.is_available()
        self.epoch = 0
        self._first_step = 0  # where the next iteration begins
        self._done = 0  # batches handed out in this epoch

    def __len__(self) -> int:
        return self.plan.n_steps(self.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; a resumed position within the same epoch is kept."""
        if epoch != self.epoch:
            self.epoch, self._first_step, self._done = epoch, 0, 0

    def __iter__(self) -> Iterator[Batch]:
        epoch = self.epoch
        self._done, self._first_step = self._first_step, 0
        steps = self.plan.batches(epoch)
        for batch in self._ahead(steps[self._done :], epoch):
            self._done += 1
            if self._done == len(steps):
                # Set before the last batch is returned: a state saved after it begins the next epoch.
                self.epoch, self._done = epoch + 1, 0
            yield batch

    def state_dict(self) -> dict[str, object]:
        """The position in the epoch: `load_state_dict` continues with the same clouds in the same order."""
        return {"epoch": self.epoch, "step": self._done, **self._identity()}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue from a saved state with the next iteration.

        Raises:
            InputError: The state is of another dataset, or of other loader arguments.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise InputError(
                    f"loader state, {name}",
                    found=repr(state.get(name)),
                    expected=repr(value),
                    remedy="resume with the dataset and the loader arguments of the interrupted run",
                )
        self.epoch = int(state["epoch"])  # type: ignore[call-overload]
        self._first_step = self._done = int(state["step"])  # type: ignore[call-overload]

    def read_batch(self, indices: NDArray[np.int64], epoch: int = 0) -> Batch:
        """The batch of these clouds of the split, augmented for an epoch."""
        layout, augment = self.layout, self.augment
        names = layout.reads if augment is None else augment.add_partners(layout.reads, self.split.schema)
        clouds = [self.split.read(int(index), names, pairs=layout.pairs) for index in indices]
        if augment is not None:
            clouds = [augment.apply(cloud, epoch, int(i)) for cloud, i in zip(clouds, indices, strict=True)]
        batch = collate(clouds, layout)
        return batch.pin_memory() if self.pin_memory else batch

    def _ahead(self, steps: list[NDArray[np.int64]], epoch: int) -> Iterator[Batch]:
        read = partial(self.read_batch, epoch=epoch)
        if self.prefetch == 0 and self.workers == 0:
            yield from map(read, steps)
            return
        n_threads = max(self.workers, 1)
        waiting: deque[Future[Batch]] = deque()
        todo = iter(steps)
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="hepdata-loader")
        # A local reference: at exit the interpreter clears modules before it closes open generators.
        is_ending = sys.is_finalizing
        try:
            while True:
                while len(waiting) < n_threads + self.prefetch and (step := next(todo, None)) is not None:
                    waiting.append(_submit(pool, read, step))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            if not is_ending():
                pool.shutdown(wait=True, cancel_futures=True)

    def _identity(self) -> dict[str, object]:
        plan = self.plan
        return {
            "fingerprint": self.split.manifest.fingerprint,
            "split": self.split.name,
            "batch_size": plan.batch_size,
            "batch_points": plan.batch_points,
            "shuffle": plan.shuffle,
            "seed": plan.seed,
            "buffer": plan.buffer,
            "rank": plan.rank,
            "world_size": plan.world_size,
            **({} if self.augment is None else {"augment": asdict(self.augment)}),
        }


def _submit(
    pool: ThreadPoolExecutor, read: Callable[[NDArray[np.int64]], Batch], step: NDArray[np.int64]
) -> Future[Batch]:
    """Submit a read to the pool; at exit, when no threads can be started, read in this thread."""
    try:
        return pool.submit(read, step)
    except RuntimeError:
        done: Future[Batch] = Future()
        done.set_result(read(step))
        return done
