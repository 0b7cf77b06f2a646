"""How reading shares the cores: a side thread for large arrays, and turns at everything small.

Decompression, checksums and copies of large arrays leave the interpreter to others. The many small columns do
not: threads that decode them at the same time exchange the interpreter page by page, which costs them more
than the pages. `small_work` lets one thread at a time do these, while others are busy with large arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Bytes of an array from which it is worth another thread's attention.
LARGE = 2**20


class _Shared:
    """What the threads of one process share; a forked process has none of them and begins anew."""

    def __init__(self) -> None:
        self.turn = Lock()
        self.side_is_taken = Lock()
        self.side: Executor | None = None


_shared = _Shared()


def _begin_anew() -> None:
    global _shared
    _shared = _Shared()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def small_work() -> Iterator[None]:
    """Wait for this thread's turn at work that needs the interpreter."""
    with _shared.turn:
        yield


@contextmanager
def side_thread() -> Iterator[Executor | None]:
    """Somebody to give large arrays to; None where another reader has it, or there is only one core."""
    shared = _shared
    if count_cores() < 2 or not shared.side_is_taken.acquire(blocking=False):
        yield None
        return
    try:
        if shared.side is None:
            shared.side = ThreadPoolExecutor(1, thread_name_prefix="hepdata-side")
        yield shared.side
    finally:
        shared.side_is_taken.release()


def submit(pool: Executor, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
    """Give work to a pool, or do it here and now where the interpreter is ending and takes no more."""
    try:
        return pool.submit(work, *args, **kwargs)
    except RuntimeError:
        return do_now(work, *args, **kwargs)


def do_now(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
    """Do the work in this thread, for those who expect that another does it."""
    done: Future[_T] = Future()
    try:
        done.set_result(work(*args, **kwargs))
    except Exception as error:
        done.set_exception(error)
    return done


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
