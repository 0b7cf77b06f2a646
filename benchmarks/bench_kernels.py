"""Resource usage of the Triton kernels, from machine code that is compiled without a GPU.

`python -m benchmarks.bench_kernels` prints the whole table.
"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table

from benchmarks.ahead import SHARED_KIB, Compiled, compile_kernel
from benchmarks.ratio import Ratio
from hept.attention.kernels import triton_backward, triton_blocks, triton_keys
from hept.attention.kernels.triton_launch import BACKWARD, FORWARD, START, Sizes
from hept.attention.kernels.triton_sort import CHUNK, OPTIONS
from hept.losses import fused, triton_pairs
from hept.model import activation, triton_activation

# The published model, and the same with two angles lifted to points on a circle.
PUBLISHED = Sizes(H=8, M=24, V=24, P=6, S=100)
LIFTED = replace(PUBLISHED, P=8)
GOALS = 80, 90
ROWS = "query", "key", "value", "coords", "out", "total", "grad", "d_total"
GRADIENTS = "d_query", "d_key", "d_value", "d_coords"
TYPES = dict.fromkeys((*ROWS, *GRADIENTS), "*fp32") | {
    "query_order": "*i64",
    "key_order": "*i64",
    "position": "*i64",
    "is_filled": "*i1",
    "table": "i32",
    "n_tables": "i32",
    "n_points": "i32",
    "epsilon": "fp32",
}
LOSS_TYPES = dict.fromkeys(("x", "weight", "loss"), "*fp32") | {
    "positive_ptr": "*i64",
    "positive_idx": "*i32",
    "negative_ptr": "*i64",
    "negative_idx": "*i32",
    "particle": "*i64",
    "offsets": "*i64",
    "seed": "i32",
    "fraction": "fp32",
    "tau": "fp32",
    "n_clouds": "i32",
}


def compile_attention(sizes: Sizes, capability: int) -> list[Compiled]:
    """The kernels of forward and backward pass with their launch parameters."""
    launches = {
        triton_blocks.attend: FORWARD,
        triton_backward.start_backward: START,
        triton_backward.backward: BACKWARD,
    }
    return [
        compile_kernel(
            kernel,
            TYPES,
            sizes.constants(launch, capability) | {"WIDE": False},
            capability,
            launch.options(),
        )
        for kernel, launch in launches.items()
    ]


def compile_keys(sizes: Sizes, capability: int) -> Compiled:
    """The kernel of sort keys for three tables and two codes, one of them of an angle."""
    constants = {"H": sizes.H, "C": 3, "A": 2, "T": CHUNK, "HAS_SHIFT": True}
    types = dict.fromkeys(("query_hash", "key_hash", "regions"), "*fp32")
    types |= dict.fromkeys(("rank", "shift", "cloud", "sizes", "keys"), "*i64")
    types |= dict.fromkeys(("n_points", "n_clouds"), "i32")
    return compile_kernel(triton_keys.make_keys, types, constants, capability, OPTIONS)


def compile_loss(capability: int, *, is_exact: bool = False) -> Compiled:
    """The kernel of InfoNCE with random negatives, for four clouds and 12 dimensions."""
    constants = fused.find_constants(12, 4) | {"PUBLISHED": True, "WITH_DRAWS": True, "EXACT": is_exact}
    types = LOSS_TYPES | {"grad": "*i64" if is_exact else "*fp32"}
    return compile_kernel(triton_pairs.add_anchors, types, constants, capability, fused.OPTIONS)


def compile_activation(capability: int) -> list[Compiled]:
    """The kernels of layer norm and tanh at the head's width, forward and backward."""
    names = "x", "bias", "gamma", "beta", "y", "grad", "d_x", "sums"
    types = dict.fromkeys(names, "*fp32") | {"n_points": "i32", "epsilon": "fp32"}
    constants = activation.find_constants(256)
    kernels = triton_activation.activate, triton_activation.backward
    return [compile_kernel(each, types, constants, capability, activation.OPTIONS) for each in kernels]


def run() -> list[Ratio]:
    """Spilled bytes and shared memory of the worst kernel on an A100 and on an H100."""
    ratios = []
    for capability in GOALS:
        kernels = [kernel for _, kernel in compile_all(capability)]
        spilled = max(kernels, key=lambda kernel: kernel.spilled)
        shared = max(kernels, key=lambda kernel: kernel.shared)
        most = SHARED_KIB[capability][0]
        ratios += [
            Ratio(f"kernels on sm_{capability}, spilled bytes", spilled.spilled, 32, "at most", spilled.name),
            Ratio(
                f"kernels on sm_{capability}, shared KiB", shared.shared / 1024, most, "at most", shared.name
            ),
        ]
    return ratios


def compile_all(capability: int) -> list[tuple[str, Compiled]]:
    """All kernels for one kind of GPU, with the number of coordinates if they use any."""
    of_coords = [
        (str(sizes.P), kernel)
        for sizes in (PUBLISHED, LIFTED)
        for kernel in compile_attention(sizes, capability)
    ]
    others = [
        compile_keys(PUBLISHED, capability),
        compile_loss(capability),
        compile_loss(capability, is_exact=True),
        *compile_activation(capability),
    ]
    return [*of_coords, *(("", kernel) for kernel in others)]


def show() -> None:
    """Print the resource usage of each kernel on each kind of GPU."""
    table = Table("kernel", "GPU", "P", "registers", "spilled B", "shared KiB", "occupancy")
    for capability in SHARED_KIB:
        for n_coords, kernel in compile_all(capability):
            numbers = kernel.registers, kernel.spilled, round(kernel.shared / 1024, 1)
            share = f"{kernel.occupancy:.0%}"
            table.add_row(kernel.name, f"sm_{capability}", n_coords, *map(str, numbers), share)
    Console(width=110).print(table)


if __name__ == "__main__":
    show()
