"""How the kernels of `triton_blocks` are cut and compiled: sizes enter, constants and grids leave.

Axes: N points, H heads, M dimensions of a query, V of a value, P coordinates, S slots of a block;
    R rows that a program owns, T rows of a chunk.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch

from hept.attention.kernels.operands import Layout, Operands


@dataclass(frozen=True)
class Launch:
    """How a kernel is cut and compiled; measured by `benchmarks/bench_kernels.py`.

    Attributes:
        operands: Operands that a program owns, at most.
        chunk: Operands of the other side that it takes at a time.
        num_warps: Warps of a program.
        num_stages: Chunks that are on their way at a time.
    """

    rows: int
    chunk: int
    num_warps: int = 4
    num_stages: int = 2

    def options(self) -> dict[str, int]:
        """Options of Triton's compiler. A product and a sum are rounded once, as by its older versions."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, "enable_fp_fusion": True}


# Chunks of 16 fill a block of 100 best. Operands and stages are those with which least is spilled.
FORWARD = Launch(rows=64, chunk=16)
BACKWARD_QUERY = Launch(rows=64, chunk=16, num_stages=3)
BACKWARD_KEY = Launch(rows=64, chunk=16, num_stages=3)
# `start_backward` has no other side.
START = Launch(rows=64, chunk=16)


@dataclass(frozen=True)
class Sizes:
    """Sizes of one attention that a kernel is compiled for, under the names that it has there."""

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

    def constants(self, launch: Launch) -> dict[str, int | str]:
        """The constants of a kernel that is launched like this."""
        return asdict(self) | {
            "R": self.count_rows(launch),
            "T": min(launch.chunk, pad(self.S)),
            "MP": pad(self.M),
            "VP": pad(self.V),
            "PP": 1 << max(self.P - 1, 0).bit_length(),
            "PRECISION": find_precision(),
        }

    def count_rows(self, launch: Launch) -> int:
        """Operands that a program owns."""
        return min(launch.rows, pad(self.S))

    def needs_64_bits(self, n_points: int) -> bool:
        """Whether a row of a point begins more than 2³¹ numbers behind that of the first, in any tensor."""
        # The output has the heads of a point side by side; the others have one head after the other.
        return n_points * max(self.H * self.V, self.M, self.P) >= 2**31

    def count_parts(self, launch: Launch) -> int:
        """Programs that share a block."""
        return -(-self.S // self.count_rows(launch))


def find_grid(sizes: Sizes, n_blocks: int, launch: Launch) -> tuple[int, int]:
    """Programs along each axis: blocks on the first, since the others end at 65,535."""
    return n_blocks * sizes.count_parts(launch), sizes.H


def find_precision() -> str:
    """How matrix products are computed: by three in TF32 where there are tensor cores for them."""
    return "ieee" if torch.version.hip else "tf32x3"


def pad(size: int) -> int:
    """Up to a power of two that a matrix product takes."""
    return max(16, 1 << (size - 1).bit_length())
