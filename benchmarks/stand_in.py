"""A stand-in for a GPU, so that torch accepts fake tensors on it; it computes nothing.

Its library must be loaded before torch is imported (`load_stand_in`), in a separate process.
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
    """Whether a compiler is installed."""
    return shutil.which("g++") is not None


def build_stand_in(folder: Path) -> Path:
    """Compile the library against the installed torch."""
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
    """Load the library and import torch; an empty path means that there is a GPU and no library is needed."""
    if "torch" in sys.modules:
        raise RuntimeError("torch is already imported: load the stand-in for a GPU before")
    library = ctypes.CDLL(path) if path else None
    import torch  # noqa: F401

    if library is not None:
        library.use_no_device()


def end_process() -> NoReturn:
    """Exit at once with code 0: autograd's device thread may abort if the interpreter ends before it."""
    sys.stdout.flush()
    os._exit(0)
