"""A library that makes torch believe in a GPU, for fake tensors; it computes nothing.

Its library is loaded before torch is imported: `load_stand_in`, in a process of its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

SOURCE = Path(__file__).with_name("stand_in.cpp")


def can_build() -> bool:
    """Whether there is a compiler for it."""
    return shutil.which("g++") is not None


def build_stand_in(folder: Path) -> Path:
    """Compile the library against the torch that is installed."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise RuntimeError("no torch to build against: install hept first")
    home, library = Path(found.origin).parent, folder / "stand_in.so"
    command = [
        "g++",
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-I{home / 'include'}",
        str(SOURCE),
        "-o",
        str(library),
    ]
    command += [f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{home / 'lib'}"]
    subprocess.run(command, check=True)
    return library


def load_stand_in(path: str) -> None:
    """Use the library, and import torch; nothing where the path is empty, since there is a GPU."""
    if "torch" in sys.modules:
        raise RuntimeError("torch has been imported: a stand-in for a GPU must come before")
    library = ctypes.CDLL(path) if path else None
    import torch  # noqa: F401

    if library is not None:
        library.use_no_device()


def end_process() -> NoReturn:
    """End well, at once: autograd's thread for the device may abort where the interpreter ends before it."""
    sys.stdout.flush()
    os._exit(0)
