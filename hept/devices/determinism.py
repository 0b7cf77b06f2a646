"""The same result every time on a GPU, where sums otherwise depend on which thread comes first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def deterministic(is_on: bool = True) -> Iterator[None]:
    """Let torch choose operators whose result does not depend on the order of threads; it raises for others.

    Our own kernels need no switch: the attention sums in one order, and InfoNCE sums integers.
    """
    if not is_on:
        yield
        return
    # cuBLAS reads it when it starts: with workspaces of a fixed size it sums in a fixed order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    # torch's type stubs lack this property.
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    # Unwritten memory is never read here, and filling it costs a launch for each tensor.
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = fill
