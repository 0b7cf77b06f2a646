"""Attention back ends by name, all of them the same function of the same arguments.

| name      | what it is                                                    | made for            |
|-----------|---------------------------------------------------------------|---------------------|
| `eager`   | plain torch, everything in memory: the definition             | reading, compiling  |
| `grouped` | groups of blocks, kernel recomputed in the backward pass      | little memory       |
| `native`  | the same in compiled loops, float32 only                      | CPU                 |
| `sdpa`    | `scaled_dot_product_attention`                                | GPU                 |
| `flex`    | FlexAttention                                                 | CUDA                |
| `auto`    | `native` where it can be, else `grouped`                      |                     |
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from hept.attention.eager import attend_eager
from hept.attention.fused import attend_flex, attend_sdpa
from hept.attention.grouped import attend_grouped
from hept.attention.native import attend_native, can_attend
from hept.attention.operators import BlockAttention
from hept.attention.rows import Layout, Rows

Backend = Literal["auto", "eager", "grouped", "native", "sdpa", "flex"]


def attend_auto(rows: Rows, layout: Layout) -> Tensor:
    """What `attend_eager` computes, by the back end that is best for such rows."""
    # Both are linear in memory, and on a CPU precise with outliers too, which no fused kernel is.
    return attend_native(rows, layout) if can_attend(rows) else attend_grouped(rows, layout)


BACKENDS: dict[str, BlockAttention] = {
    "auto": attend_auto,
    "eager": attend_eager,
    "grouped": attend_grouped,
    "native": attend_native,
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
