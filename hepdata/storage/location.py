"""The location of a dataset: a local folder or an fsspec URL, whose files are read by name.

Small and picklable, so that it can be sent to worker processes instead of open files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hepdata.errors import InputError
from hepdata.urls import is_url


@dataclass(frozen=True)
class DatasetLocation:
    """A folder of files, local or remote.

    Attributes:
        location: Local path or fsspec URL, without a trailing slash.
    """

    location: str

    @property
    def is_local(self) -> bool:
        """Whether its files are opened by the operating system, not through fsspec."""
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
        """The content of a small file.

        Args:
            name: Of the file.
            limit: Largest accepted size in bytes.

        Raises:
            InputError: No such dataset, an unreadable location, or a file that is too large or endless.
        """
        if self.is_local and Path(self.location, name).exists() and not Path(self.location, name).is_file():
            raise InputError(
                self.name_of(name),
                found="something that is not a file",
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
                found=f"a location that cannot be read ({error})",
                expected="a dataset folder, or its URL",
                remedy="check path and permissions; some kinds of URLs need another package for fsspec",
            ) from error
        if len(content) > limit:
            raise InputError(
                self.name_of(name),
                found=f"more than {limit:,} bytes",
                expected=f"a {name} as hept-data writes it",
                remedy="copy the file again from its source, or build the dataset again",
            )
        return content


def open_location(location: str | os.PathLike[str]) -> DatasetLocation:
    """The location that a user gave; `file://` URLs are local folders."""
    text = os.fspath(location).removeprefix("file://")
    return DatasetLocation(text.rstrip("/") or "/")
