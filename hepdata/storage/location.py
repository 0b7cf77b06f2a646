"""Where a dataset lies: a local folder or an fsspec URL, read by name.

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
    """

    location: str

    @property
    def is_local(self) -> bool:
        """Whether the operating system can open its files."""
        return not is_url(self.location)

    def name_of(self, name: str) -> str:
        """Full path or URL of one file, for messages."""
        return f"{self.location}/{name}"

    def find(self, name: str) -> tuple[Any, str]:
        """The fsspec file system of the folder, and the path of one of its files there."""
        from fsspec.core import url_to_fs

        system, root = url_to_fs(self.location)
        return system, f"{root.rstrip('/')}/{name}"

    def open(self, name: str) -> Any:
        """A binary file object for reading."""
        system, path = self.find(name)
        return system.open(path, "rb")

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """A whole small file.

        Args:
            name: Of the file.
            limit: Bytes that it has at most.

        Raises:
            InputError: No such dataset, no way to read it, or a file that is too large or never ends.
        """
        if self.is_local and Path(self.location, name).exists() and not Path(self.location, name).is_file():
            raise InputError(
                self.name_of(name),
                found="something that is no file",
                expected="a dataset folder made by hept-data build",
                remedy="check the path, or build the dataset first",
            )
        try:
            with self.open(name) as file:
                content: bytes = file.read(limit + 1)
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
        if len(content) > limit:
            raise InputError(
                self.name_of(name),
                found=f"more than {limit:,} bytes",
                expected=f"a {name} as hept-data writes it",
                remedy="copy the file again from where it came, or build the dataset again",
            )
        return content


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a location goes through fsspec instead of the operating system."""
    text = os.fspath(location)
    return "://" in text or "::" in text


def open_place(location: str | os.PathLike[str]) -> Place:
    """The place that a user named; `file://` URLs are local folders."""
    text = os.fspath(location).removeprefix("file://")
    return Place(text.rstrip("/") or "/")
