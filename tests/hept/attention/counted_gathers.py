"""Bytes that kernels read and write, counted in Triton's interpreter."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
from triton.runtime import interpreter


@contextmanager
def count_gathers():
    """Count bytes of loads and stores; a program reads and writes each address once."""
    builder, found = interpreter.interpreter_builder, SimpleNamespace(n_bytes=0)
    seen = {"load": [], "store": []}
    load, store, move_on = builder.create_masked_load, builder.create_masked_store, builder.set_grid_idx

    def note(kind, pointers, mask):
        # A boolean has one bit in Triton and one byte in memory.
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.broadcast_to(pointers.data, mask.data.shape)[mask.data]
        # Every byte has an address.
        seen[kind].append((addresses[:, None] + np.arange(size, dtype=addresses.dtype)).ravel())

    def finish():
        for addresses in seen.values():
            found.n_bytes += len(np.unique(np.concatenate(addresses))) if addresses else 0
            addresses.clear()

    def count_load(pointers, mask, *others):
        note("load", pointers, mask)
        return load(pointers, mask, *others)

    def count_store(pointers, value, mask, *others):
        note("store", pointers, mask)
        return store(pointers, value, mask, *others)

    def begin_program(*index):
        finish()
        return move_on(*index)

    builder.create_masked_load, builder.create_masked_store = count_load, count_store
    builder.set_grid_idx = begin_program
    try:
        yield found
    finally:
        finish()
        builder.create_masked_load, builder.create_masked_store = load, store
        builder.set_grid_idx = move_on
