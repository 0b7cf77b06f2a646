"""Paths or URLs: what is opened through fsspec."""

from __future__ import annotations

import os


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a location is a URL, which is opened through fsspec."""
    text = os.fspath(location)
    return "://" in text or "::" in text
