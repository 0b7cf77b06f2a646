"""Whether Triton's kernels can run: tensors enter, yes or no leaves."""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor

# Older GPUs lack TF32 tensor cores and have little shared memory; they use plain torch.
OLDEST_CAPABILITY = 80


@cache
def has_triton() -> bool:
    """Whether Triton can be imported; it comes with torch's builds for GPUs."""
    return importlib.util.find_spec("triton") is not None


@cache
def find_capability(device: torch.device) -> int:
    """Compute capability times 10, such as 80; `OLDEST_CAPABILITY` for fake tensors without a GPU."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return OLDEST_CAPABILITY
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def can_run_triton(*tensors: Tensor | None) -> bool:
    """Whether the float32 kernels support these tensors on their device."""
    given = [each for each in tensors if each is not None]
    device = given[0].device
    # On a CPU, Triton's interpreter must be requested explicitly.
    is_there = device.type == "cuda" or (device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")
    is_float = all(each.dtype == torch.float32 for each in given)
    return is_there and is_float and has_triton() and find_capability(device) >= OLDEST_CAPABILITY


def launch_beside(tensor: Tensor) -> AbstractContextManager[None]:
    """Make the tensor's device the current one: Triton launches on the current device."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
