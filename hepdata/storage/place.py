"""Where a dataset lies: a local folder or an fsspec URL, read by name and byte range.

Small and picklable, so that a dataset travels to worker processes as its address.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hepdata.errors import InputError


@dataclass(frozen=True)
class Place:
    """A folder of files.

    Attributes:
        location: Local path or fsspec URL, without a slash at the end.
        is_local: Whether the operating system can open its files.
    """

    location: str
    is_local: bool

    def name_of(self, name: str) -> str:
        """Full path or URL of one file."""
        return f"{self.location}/{name}"

    def read_bytes(self, name: str) -> bytes:
        """A whole small file.

        Raises:
            InputError: No such dataset, or no way to read it.
        """
        try:
            with self.open(name) as file:
                content: bytes = file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                self.location,
                found=f"no {name}",
                expected="a dataset folder made by hept-data build",
                remedy="check the path, or build the dataset first",
            ) from error
        except (OSError, ValueError, ImportError) as error:
            raise InputError(
                self.location,
                found=f"an address that cannot be read ({error})",
                expected="a dataset folder, or its URL",
                remedy="check address and permissions; a URL may need a package of its own for fsspec",
            ) from error
        return content

    def open(self, name: str) -> Any:
        """A binary file object for reading."""
        if self.is_local:
            return Path(self.name_of(name)).open("rb")
        import fsspec

        return fsspec.open(self.name_of(name), "rb").open()


def open_place(location: str | os.PathLike[str]) -> Place:
    """The place that a user named; `file://` URLs are local folders."""
    text = os.fspath(location)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    is_local = "://" not in text and "::" not in text
    return Place(text.rstrip("/") or "/", is_local)
