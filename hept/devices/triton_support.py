"""Where Triton's kernels run: tensors enter, yes or no leaves."""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor

# Older GPUs have no tensor cores for float32, and little shared memory; plain torch serves them.
OLDEST_CAPABILITY = 80


@cache
def has_triton() -> bool:
    """Whether Triton can be imported; it comes with torch's builds for GPUs."""
    return importlib.util.find_spec("triton") is not None


@cache
def find_capability(device: torch.device) -> int:
    """80 for a GPU of compute capability 8.0; fake tensors may have a GPU where there is none."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return OLDEST_CAPABILITY
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def can_run_triton(*tensors: Tensor | None) -> bool:
    """Whether kernels for float32 take these tensors where they are."""
    given = [each for each in tensors if each is not None]
    device = given[0].device
    # On a CPU there is Triton's interpreter, for those who ask for it.
    is_there = device.type == "cuda" or (device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")
    is_float = all(each.dtype == torch.float32 for each in given)
    return is_there and is_float and has_triton() and find_capability(device) >= OLDEST_CAPABILITY


def launch_beside(tensor: Tensor) -> AbstractContextManager[None]:
    """Launch on the tensor's device: Triton takes the current one, which may be another."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
