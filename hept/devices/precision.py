"""Matrix products that need full precision: TF32 is off within a block, whatever the user has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Compute products of float32 matrices in float32 on a GPU, not in TF32, which keeps 10 bits of 23."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        # A compiled step keeps the setting it was compiled with; see `hept.training`.
        yield
        return
    switch = torch.backends.cuda.matmul
    before = switch.allow_tf32
    switch.allow_tf32 = False
    try:
        yield
    finally:
        switch.allow_tf32 = before
