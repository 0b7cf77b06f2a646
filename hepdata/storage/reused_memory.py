"""Memory for large arrays that is used again once the array is gone.

Memory fresh from the operating system costs as much to touch for the first time as a cloud's pairs cost to
read. A reader that fills one array after the other gets back the memory of those that nobody holds any more.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Smaller arrays are the allocator's business, which keeps memory of their size anyway.
SMALLEST = 2**20
# Blocks that nobody uses, the last one used at the right. As many are kept as have this size together, so
# that an epoch begins with the memory of the one before; two of those that are larger.
KEPT_BYTES = 2**27
_free: deque[NDArray[np.uint8]] = deque()


def empty(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array of undefined content, like `np.empty`; may be kept, written to and shared as any other."""
    n_bytes = length * np.dtype(dtype).itemsize
    if n_bytes < SMALLEST:
        return np.empty(length, dtype)
    block = _take(n_bytes)
    lease = _Lease(block)
    # Runs when the last array on this memory is gone; nothing is to be saved when the interpreter ends.
    weakref.finalize(lease, _give_back, block).atexit = False
    return np.asarray(lease)[:n_bytes].view(dtype)


class _Lease:
    """What arrays on a block hold on to: numpy keeps it alive as long as any view of the memory."""

    def __init__(self, block: NDArray[np.uint8]) -> None:
        self.__array_interface__ = block.__array_interface__


# Without a lock, for a block may come back at any line of any thread, these included: a deque's own methods
# are whole steps, and every one may find that another has been quicker.


def _take(n_bytes: int) -> NDArray[np.uint8]:
    with suppress(IndexError):
        for _ in range(len(_free)):
            block = _free.pop()
            if n_bytes <= len(block) <= 2 * n_bytes:
                return block
            _free.appendleft(block)
        # None fits: the oldest may be of a size that nobody asks for any more.
        _free.popleft()
    # Some more than was asked for, so that a somewhat larger cloud fits too: memory that is never touched is
    # not there.
    return np.empty(n_bytes + n_bytes // 4, np.uint8)


def _give_back(block: NDArray[np.uint8]) -> None:
    _free.append(block)
    with suppress(IndexError):
        while len(_free) > max(2, KEPT_BYTES // len(block)):
            _free.popleft()
