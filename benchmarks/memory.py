"""Peak memory of a piece of work, measured in its own process; and tensors of any size that take none."""

from __future__ import annotations

import math
import mmap
import multiprocessing
import resource
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import torch
from torch import Tensor

# MAP_NORESERVE of Linux, which Python defines from 3.12 on.
NO_RESERVE = 0x4000


def added_bytes(prepare: Callable[[], Callable[[], object]]) -> int:
    """Peak resident memory of `prepare()()` minus that after `prepare()`.

    Args:
        prepare: A module-level function (it is pickled for another process) that makes the inputs and returns
            the work.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(prepare, sender))
    process.start()
    sender.close()
    added: int = receiver.recv()
    process.join()
    return added


def _measure(prepare: Callable[[], Callable[[], object]], sender: Connection) -> None:
    work = prepare()
    _reset_peak()
    before = _peak()
    work()
    sender.send(_peak() - before)


def _reset_peak() -> None:
    # Linux can reset the peak; elsewhere the peak of the preparation stays, and the result is a lower bound.
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        return


def _peak() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def map_memory(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros in lazily committed memory (Linux only): untouched pages take none."""
    size = math.prod(shape) * dtype.itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    return torch.frombuffer(memory, dtype=dtype).view(*shape)
