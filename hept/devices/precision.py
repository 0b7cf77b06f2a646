"""Half precision where the user asked for it, and matrix products whose digits matter, where TF32 is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hept.devices.choice import Precision

_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def mixed_precision(device: torch.device, precision: Precision) -> torch.autocast:
    """Run a model inside this block: the operators that tolerate it take half precision, if it is mixed.

    Inputs stay float32: a coordinate in half precision is off by up to 0.016. Training, validation and
    evaluation all enter this block, so that a model is scored as it is trained.
    """
    return torch.autocast(device.type, dtype=_HALF.get(precision), enabled=precision in _HALF)


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Compute products of float32 matrices in float32 on a GPU, not in TF32, which keeps 10 bits of 23."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        # A compiled step keeps the switch that it was compiled with; see `hept.training`.
        yield
        return
    switch = torch.backends.cuda.matmul
    before = switch.allow_tf32
    switch.allow_tf32 = False
    try:
        yield
    finally:
        switch.allow_tf32 = before
