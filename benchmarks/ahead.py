"""Triton kernels compiled without a GPU: a kernel and its constants enter, its resource usage leaves.

Registers, spilled bytes and shared memory are read from the machine code, with the tools that come with
Triton.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
# Shared memory in KiB, at most per program and in total per multiprocessor; CUDA's programming guide,
# "Technical Specifications per Compute Capability".
SHARED_KIB = {80: (163, 164), 86: (99, 100), 89: (99, 100), 90: (227, 228), 100: (227, 228), 120: (99, 100)}
THREADS = {80: 2048, 86: 1536, 89: 1536, 90: 2048, 100: 2048, 120: 1536}
REGISTERS = 65_536


@dataclass(frozen=True)
class Compiled:
    """Resource usage of a kernel on one kind of GPU.

    Attributes:
        name: Name of the kernel.
        capability: Compute capability, 80 for sm_80.
        registers: Registers per thread.
        spilled: Spilled bytes per thread.
        shared: Bytes of shared memory per program.
        n_threads: Threads per program.
    """

    name: str
    capability: int
    registers: int
    spilled: int
    shared: int
    n_threads: int

    @property
    def fits(self) -> bool:
        """Whether a program's shared memory fits."""
        return self.shared <= SHARED_KIB[self.capability][0] * 1024

    @property
    def occupancy(self) -> float:
        """Fraction of a multiprocessor's maximum number of threads that can be resident."""
        by_memory = SHARED_KIB[self.capability][1] * 1024 // (self.shared + 1024)
        by_registers = REGISTERS // (self.registers * self.n_threads)
        threads = THREADS[self.capability]
        return min(by_memory, by_registers, threads // self.n_threads) * self.n_threads / threads


def compile_kernel(
    kernel: Any,
    types: dict[str, str],
    constants: dict[str, int | str],
    capability: int,
    options: dict[str, int],
) -> Compiled:
    """Compile for a GPU of this capability.

    Args:
        kernel: Made by `triton.jit`.
        types: Triton's type name of each non-constant argument, such as "*fp32".
        constants: Values of the constant arguments; unknown names are ignored.
        capability: Compute capability, 80 for sm_80.
        options: Options of the compiler, including num_warps.
    """
    names = kernel.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    at = {name: (i,) for i, name in enumerate(names)}
    # As in a real launch, pointers are aligned to 16 bytes.
    aligned = {at[name]: [["tt.divisibility", 16]] for name in names if signature[name].startswith("*")}
    source = ASTSource(kernel, signature, {at[name]: value for name, value in constants.items()}, aligned)
    code = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    used = read_usage(code.asm["cubin"])
    return Compiled(
        kernel.__name__,
        capability,
        used["REG"],
        used["STACK"],
        code.metadata.shared,
        32 * options["num_warps"],
    )


def read_usage(cubin: bytes) -> dict[str, int]:
    """Counts by name (REG, STACK, …) from machine code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(TOOLS / "cuobjdump"), "--dump-resource-usage", str(path)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in reversed(shown.splitlines()) if "REG:" in line)
    pairs = (entry.split(":") for entry in line.split() if entry.count(":") == 1)
    return {name: int(value) for name, value in pairs}
