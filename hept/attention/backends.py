"""Attention back ends by name, all of them the same function of the same arguments.

| name      | what it is                                                    | made for            |
|-----------|---------------------------------------------------------------|---------------------|
| `eager`   | plain torch, everything in memory: the definition             | reading, compiling  |
| `grouped` | groups of blocks, kernel recomputed in the backward pass      | little memory       |
| `native`  | the same in compiled loops, float32 only                      | CPU                 |
| `triton`  | the same in fused kernels, float32 only                       | GPU, from 8.0 on    |
| `sdpa`    | `scaled_dot_product_attention`                                | GPU                 |
| `flex`    | FlexAttention                                                 | CUDA                |
| `auto`    | `native` on a CPU, `triton` on a GPU, `grouped` elsewhere     |                     |
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from hept.attention import native, triton_backend
from hept.attention.eager import attend_eager
from hept.attention.fused import attend_flex, attend_sdpa
from hept.attention.grouped import attend_grouped
from hept.attention.native import attend_native
from hept.attention.operators import BlockAttention
from hept.attention.rows import Layout, Rows
from hept.attention.triton_backend import attend_triton

Backend = Literal["auto", "eager", "grouped", "native", "triton", "sdpa", "flex"]


def attend_auto(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, by the back end that is best for such rows."""
    return BACKENDS[choose_backend(rows)](rows, layout)


def choose_backend(rows: Rows) -> Backend:
    """The name of the back end that is best for such rows."""
    # All three are linear in memory; `sdpa` and `flex` lose precision to outliers.
    if native.can_attend(rows):
        return "native"
    # On a CPU there is only Triton's interpreter.
    if rows.query.device.type != "cpu" and triton_backend.can_attend(rows):
        return "triton"
    return "grouped"


def needs_grid(name: str, rows: Rows) -> bool:
    """Whether the back end of that name expands distances on a grid, and wants its step with such rows."""
    name = choose_backend(rows) if name == "auto" else name
    return name in ("grouped", "sdpa", "flex")


BACKENDS: dict[str, BlockAttention] = {
    "auto": attend_auto,
    "eager": attend_eager,
    "grouped": attend_grouped,
    "native": attend_native,
    "triton": attend_triton,
    "sdpa": attend_sdpa,
    "flex": attend_flex,
}


def find_backend(name: str) -> BlockAttention:
    """The back end of that name.

    Raises:
        ValueError: For an unknown name.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend: got {name!r}, need one of {', '.join(BACKENDS)}")
    return BACKENDS[name]
