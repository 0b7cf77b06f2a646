"""Attention back ends by name, all of them the same function of the same arguments.

| name      | what it is                                                    | made for            |
|-----------|---------------------------------------------------------------|---------------------|
| `eager`   | plain torch, everything in memory: the definition             | reading, compiling  |
| `grouped` | groups of blocks, kernel recomputed in the backward pass      | CPU, little memory  |
| `sdpa`    | `scaled_dot_product_attention`                                | GPU                 |
| `flex`    | FlexAttention                                                 | CUDA                |
| `auto`    | `grouped`                                                     |                     |
"""

from __future__ import annotations

from typing import Literal, Protocol

from torch import Tensor

from hept.attention.eager import attend_eager
from hept.attention.fused import attend_flex, attend_sdpa
from hept.attention.grouped import attend_grouped
from hept.attention.rows import Layout, Rows

Backend = Literal["auto", "eager", "grouped", "sdpa", "flex"]


class BlockAttention(Protocol):
    """A back end."""

    def __call__(self, rows: Rows, layout: Layout) -> Tensor:
        """See `hept.attention.eager.attend_eager`."""
        ...


BACKENDS: dict[str, BlockAttention] = {
    # Linear in memory on every device, and on a CPU precise with outliers too, which no fused kernel is.
    "auto": attend_grouped,
    "eager": attend_eager,
    "grouped": attend_grouped,
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
