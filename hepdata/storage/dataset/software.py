"""Which packages made a dataset."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("hept", "numpy", "pandas", "pyarrow", "h5py", "scipy", "uproot", "awkward")


def list_software() -> dict[str, str]:
    """Version of Python and of every package whose results or bytes are in the files."""
    return dict(_find_versions())


@cache
def _find_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
