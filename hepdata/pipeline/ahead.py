"""Work ahead of whoever uses its results: items in, the same items out, made by a thread of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def run_ahead(items: Generator[_T, None, None], *, depth: int = 1) -> Iterator[_T]:
    """The items in order; while one is used, a thread makes up to `depth` that follow.

    What making an item raises is raised here, in its place. Where this is closed, so is `items`.

    Args:
        items: Makes them; nobody else may ask it for any.
        depth: Items that may wait, beside the one that is in use.
    """
    with ThreadPoolExecutor(1, "ahead") as thread:
        coming: deque[Future[list[_T]]] = deque(thread.submit(_take, items) for _ in range(depth))
        try:
            while item := coming.popleft().result():
                coming.append(thread.submit(_take, items))
                yield item.pop()
        finally:
            thread.shutdown(cancel_futures=True)
            items.close()


def _take(items: Iterator[_T]) -> list[_T]:
    """The next item, or nothing at the end: a future cannot hold StopIteration."""
    for item in items:
        return [item]
    return []
