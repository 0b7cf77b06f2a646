"""Versions, processor and GPU: what a bug report needs first."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from hepdata import __version__
from hept.attention.kernels import native
from hept.diagnosis.verdict import Verdict

PACKAGES = ("torch", "triton", "lightning-fabric", "numpy", "pyarrow")


def describe_software() -> Verdict:
    """Versions of this package and of the numerical ones."""
    found: dict[str, float | str] = {"hept": __version__, "python": platform.python_version()}
    found |= {name: _find_version(name) for name in PACKAGES}
    found["torch"] = torch.__version__  # with the build, +cu130 or +cpu
    found |= {"system": platform.platform(), "CUDA of torch": torch.version.cuda or "none"}
    text = ", ".join(f"{name} {found[name]}" for name in ("hept", "python", "torch", "triton"))
    return Verdict("versions", "ok", text, found)


def describe_device(device: torch.device) -> Verdict:
    """Name, memory and capabilities of the device and its host processor."""
    found: dict[str, float | str] = {
        "device": str(device),
        "processor": _find_processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": float(os.cpu_count() or 1),
        "threads": float(torch.get_num_threads()),
        "lanes of compiled loops": float(native.count_lanes()),
    }
    name = f"{found['processor']}, {found['instructions']}, {torch.get_num_threads()} threads"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "GPU": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "memory GB": properties.total_memory / 1e9,
            "GPUs": float(torch.cuda.device_count()),
        }
        name = f"{properties.name}, {properties.total_memory / 1e9:.0f} GB, beside {name}"
    return Verdict("device", "ok", f"{device}: {name}", found)


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        # Builds of torch for GPUs may bring Triton under another name.
        return "yes" if importlib.util.find_spec(name.replace("-", "_")) else "none"


def _find_processor() -> str:
    """The processor's name from Linux, otherwise from Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
