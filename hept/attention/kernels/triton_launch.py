"""Launch parameters of `triton_blocks` and `triton_backward`: sizes enter, constants and grids leave.

Axes: N points, H heads, M dimensions of a query, V of a value, P coordinates, S slots of a block;
    R rows that a program owns, T rows of a chunk.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch

from hept.attention.kernels.operands import Layout, Operands


@dataclass(frozen=True)
class Launch:
    """How a kernel is tiled and compiled; measured by `benchmarks/bench_kernels.py`.

    Attributes:
        rows: Largest number of rows that a program owns.
        chunk: Rows of the other side that a program loads at a time.
        num_warps: Warps per program.
        num_stages: Stages of the software pipeline, each loading one chunk.
        sides: 2 if there are programs that own queries and others that own keys.
    """

    rows: int
    chunk: int
    num_warps: int = 4
    num_stages: int = 2
    sides: int = 1

    def options(self) -> dict[str, int]:
        """Options of Triton's compiler, with fused multiply-add as in its older versions."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, "enable_fp_fusion": True}


# Chunks of 16 waste the fewest slots of a block of 100. Rows and stages minimise register spills.
FORWARD = Launch(rows=64, chunk=16)
BACKWARD = Launch(rows=64, chunk=16, sides=2)
# `start_backward` does not loop over chunks.
START = Launch(rows=64, chunk=16)


@dataclass(frozen=True)
class Sizes:
    """Sizes of one attention, under the names of the kernels' compile-time constants."""

    H: int
    M: int
    V: int
    P: int
    S: int

    @classmethod
    def of(cls, operands: Operands, layout: Layout) -> Sizes:
        """Sizes of these operands in these blocks."""
        n_heads, _, dim = operands.query.shape
        return cls(
            n_heads, dim, operands.value.shape[-1], operands.n_coords, layout.blocks.position.shape[-1]
        )

    def constants(self, launch: Launch, capability: int) -> dict[str, int | str]:
        """Compile-time constants of a kernel with these launch parameters, on a GPU of this capability."""
        return asdict(self) | {
            "R": self.count_rows(launch),
            "T": min(launch.chunk, pad(self.S)),
            "MP": pad(self.M),
            "VP": pad(self.V),
            "PP": 1 << max(self.P - 1, 0).bit_length(),
            "PRECISION": find_precision(),
            # Coordinates at a time: the largest number that spills few registers with every known Triton.
            "UNROLL": 3 if capability >= 120 else 2,
        }

    def count_rows(self, launch: Launch) -> int:
        """Rows that a program owns."""
        return min(launch.rows, pad(self.S))

    def needs_64_bits(self, n_points: int) -> bool:
        """Whether offsets of rows exceed 2³¹ in any tensor."""
        return n_points * self.H * max(self.V, self.M, self.P) >= 2**31

    def count_parts(self, launch: Launch) -> int:
        """Programs per block and head."""
        return launch.sides * -(-self.S // self.count_rows(launch))


def find_grid(sizes: Sizes, n_blocks: int, launch: Launch) -> tuple[int, int]:
    """Programs along each axis; blocks are on the first, since the others are limited to 65,535."""
    return n_blocks * sizes.count_parts(launch), sizes.H


def find_precision() -> str:
    """Precision of matrix products: three TF32 products, except on AMD GPUs."""
    return "ieee" if torch.version.hip else "tf32x3"


def pad(size: int) -> int:
    """Round up to a power of two, at least the minimum size of `tl.dot`."""
    return max(16, 1 << (size - 1).bit_length())
