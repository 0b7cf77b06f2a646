"""Bytes that kernels read and write, counted in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from triton.runtime import interpreter


@dataclass
class Gathered:
    """Bytes read and written."""

    n_bytes: int = 0


@contextmanager
def count_gathers(parts: int = 1) -> Iterator[Gathered]:
    """Count bytes of masked loads and stores, and of atomic additions.

    A program counts each address once for reading and once for writing; each atomic addition counts twice.

    Args:
        parts: This many consecutive programs on the first axis of the grid count as one.
    """
    builder, found = interpreter.interpreter_builder, Gathered()
    seen: dict[tuple[Any, ...], list[Any]] = {}
    group: tuple[int, ...] = ()
    names = "create_masked_load", "create_masked_store", "create_atomic_rmw", "set_grid_idx"
    load, store, add, move_on = (getattr(builder, name) for name in names)

    def note(kind: str, pointers: Any, mask: Any) -> None:
        # A boolean is one bit in Triton's types and one byte in memory.
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.broadcast_to(pointers.data, mask.data.shape)[mask.data]
        # One address per byte.
        seen.setdefault((kind, *group), []).append(
            (addresses[:, None] + np.arange(size, dtype=addresses.dtype)).ravel()
        )

    def finish() -> None:
        for addresses in seen.values():
            found.n_bytes += len(np.unique(np.concatenate(addresses)))
        seen.clear()

    def count_load(pointers: Any, mask: Any, *others: Any) -> Any:
        note("load", pointers, mask)
        return load(pointers, mask, *others)

    def count_store(pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        note("store", pointers, mask)
        return store(pointers, value, mask, *others)

    def count_add(operation: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        found.n_bytes += 2 * value.data.itemsize * int(mask.data.sum())
        return add(operation, pointers, value, mask, *others)

    def begin_program(x: int, *others: int) -> Any:
        nonlocal group
        is_new_launch = x == 0 and not any(others)
        if is_new_launch or (x % parts == 0 and group[:1] != (x // parts,)):
            finish()
        group = x // parts, *others
        return move_on(x, *others)

    for name, counted in zip(names, (count_load, count_store, count_add, begin_program), strict=True):
        setattr(builder, name, counted)
    try:
        yield found
    finally:
        finish()
        for name, original in zip(names, (load, store, add, move_on), strict=True):
            setattr(builder, name, original)
