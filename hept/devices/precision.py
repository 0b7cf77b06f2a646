"""Half precision where the user asked for it, and full precision where digits matter.

Coordinates, hashes, distances and normalisations are float32 whatever the setting `precision` and torch's
switches for TF32 say. So are the encoder and the transformer blocks: their layers are so narrow that casting
to half precision moves more bytes than it saves. What is left to half precision and TF32 are the wide layers
of the head, where most of the arithmetic is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from hept.devices.choice import Precision

# Apple's GPUs.
WITHOUT_FLOAT64 = {"mps"}
_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def mixed_precision(device: torch.device, precision: Precision) -> torch.autocast:
    """Run a model inside this block: the operators that tolerate it take half precision, if it is mixed.

    Inputs stay float32: a coordinate in half precision is off by up to 0.016. Training, validation and
    evaluation all enter this block, so that a model is scored as it is trained.
    """
    return torch.autocast(device.type, dtype=_HALF.get(precision), enabled=precision in _HALF)


def find_widest(device: torch.device) -> torch.dtype:
    """The widest floating type of a device: float64, where it has that."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute in the precision of the operands: neither half precision of autocast nor TF32."""
    # Autocast is off already: exported programs stay free of this block.
    is_half = torch.is_autocast_enabled(device.type)
    with torch.autocast(device.type, enabled=False) if is_half else nullcontext(), exact_products():
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """Multiply matrices of float32 in float32, not in TF32, which keeps 10 bits of 23, nor in bfloat16.

    A compiled network keeps the switches that it was compiled with: the trainer enters this block around it.
    """
    if torch.compiler.is_compiling():
        yield
        return
    switches = _find_switches()
    before = [getattr(*each) for each in switches]
    for module, name in switches:
        setattr(module, name, "ieee" if name == "fp32_precision" else False)
    try:
        yield
    finally:
        for (module, name), value in zip(switches, before, strict=True):
            setattr(module, name, value)


def _find_switches() -> list[tuple[object, str]]:
    # Before torch 2.9 there was one switch, of CUDA; from then on reading it beside the new ones may raise.
    cuda = torch.backends.cuda.matmul
    if not hasattr(cuda, "fp32_precision"):
        return [(cuda, "allow_tf32")]
    return [(cuda, "fp32_precision"), (torch.backends.mkldnn.matmul, "fp32_precision")]  # type: ignore[attr-defined]
