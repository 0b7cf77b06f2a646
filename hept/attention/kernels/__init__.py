"""Block attention by name: one file per kind of hardware; all compute the same function of the same operands.

| name     | what it is                                                         | used by `auto`          |
|----------|--------------------------------------------------------------------|-------------------------|
| `native` | compiled C++ loops for float32 (`native.cpp`)                      | on a CPU                |
| `triton` | fused kernels for float32 (`triton_blocks.py`)                     | on a GPU, from 8.0 on   |
| `plain`  | torch only, a group of blocks at a time: the reference for the others | everywhere else       |
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from hepdata.errors import InputError
from hept.attention.kernels import native, triton
from hept.attention.kernels.native import attend_native
from hept.attention.kernels.operands import Layout, Operands
from hept.attention.kernels.operators import BlockAttention
from hept.attention.kernels.plain import attend_plain
from hept.attention.kernels.triton import attend_triton
from hept.devices.tracing import is_exporting

Backend = Literal["auto", "plain", "native", "triton"]


def attend_auto(operands: Operands, layout: Layout) -> Tensor:
    """Compute `attend_plain` by the fastest kernel for these operands."""
    # Runtimes of exported models do not have compiled kernels.
    if is_exporting():
        return attend_plain(operands, layout)
    if native.can_attend(operands):
        return attend_native(operands, layout)
    # On a CPU, Triton only has a slow interpreter.
    if operands.query.device.type != "cpu" and triton.can_attend(operands):
        return attend_triton(operands, layout)
    return attend_plain(operands, layout)


BACKENDS: dict[str, BlockAttention] = {
    "auto": attend_auto,
    "plain": attend_plain,
    "native": attend_native,
    "triton": attend_triton,
}


def check_backend(name: Backend, device: torch.device, dtype: torch.dtype) -> None:
    """See before a run that a kernel takes its tensors.

    Raises:
        InputError: It does not.
    """
    tiny = torch.empty(1, 1, 1, device=device, dtype=dtype)
    operands = Operands(tiny, tiny, tiny, None)
    can_run = {"native": native.can_attend, "triton": triton.can_attend}
    if name in can_run and not can_run[name](operands):
        raise InputError(
            f"model.backend={name}",
            found=f"no such kernel for {str(dtype).removeprefix('torch.')} on {device.type}",
            expected="native: float32 on a CPU, compiled; triton: float32 on a GPU from capability 8.0 on",
            remedy="set model.backend=auto",
        )


def find_backend(name: str) -> BlockAttention:
    """The kernel of that name.

    Raises:
        ValueError: For an unknown name.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend: got {name!r}, need one of {', '.join(BACKENDS)}")
    return BACKENDS[name]
