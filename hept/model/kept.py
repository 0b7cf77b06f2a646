"""Weights that come with the package, by name: `tracking-acts` enters, the path of its file leaves.

`python -m benchmarks.make_weights` makes them; each has a card beside it, NAME.md.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "weights"


def list_kept() -> list[str]:
    """Names of the weights that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def find_kept(source: str | os.PathLike[str]) -> Path | None:
    """The file of weights of this name; None if there is none, or a file or folder of the same name."""
    name = os.fspath(source)
    return FOLDER / f"{name}.safetensors" if name in list_kept() and not Path(name).exists() else None
