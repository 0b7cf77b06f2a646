"""Find input files: paths, globs, folders and URLs in, a list of files out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

import fsspec

from hepdata.errors import InputError, missing_extra
from hepdata.urls import is_url

_EXTRAS = {"root": ("fsspec-xrootd", "xrootd"), "http": ("aiohttp", "http"), "https": ("aiohttp", "http")}
# By default XRootD waits ten minutes for a server that does not answer; variables set by the user are kept.
_XROOTD_PATIENCE = {"XRD_CONNECTIONWINDOW": "15", "XRD_CONNECTIONRETRY": "2"}  # seconds, attempts
_CHUNK = 1 << 18


def find_files(inputs: Sequence[str]) -> list[str]:
    """All files that the inputs name, in the given order; globs and folders are sorted.

    Args:
        inputs: Paths, globs, folders (their `*.root`), or URLs of any kind that fsspec knows.

    Raises:
        InputError: An input matches no file, a file occurs twice, or a URL needs a missing package.
    """
    files = [file for entry in inputs for file in _expand(entry)]
    seen: set[str] = set()
    for file in files:
        key = file if is_url(file) else str(Path(file).resolve())
        if key in seen:
            raise InputError(
                file,
                found="the same file twice",
                expected="every file once",
                remedy="remove one: its events would be in more than one split",
            )
        seen.add(key)
    return files


def name_of(location: str) -> str:
    """The file's name without its folder."""
    return location.rstrip("/").rpartition("/")[2]


def version_of(location: str) -> tuple[int, int] | None:
    """Size and modification time of a local file; None for a URL or a missing file."""
    if is_url(location):
        return None
    try:
        status = Path(location).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def open_binary(location: str) -> Any:
    """A file object for reading bytes, from a path or a URL."""
    if not is_url(location):
        return Path(location).open("rb")
    _check_protocol(location)
    return fsspec.open(location, "rb").open()


def size_of(location: str) -> int:
    """Size of a file in bytes; 0 if its server does not report it."""
    if not is_url(location):
        return Path(location).stat().st_size
    _check_protocol(location)
    system, path = fsspec.core.url_to_fs(location)
    return int(system.size(path) or 0)


def checksum(location: str, advance: Callable[[int], None] | None = None) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a file; `advance` is called with the size of every chunk."""
    digest = hashlib.sha256()
    size = 0
    # One reused buffer: allocating memory takes about as long as reading.
    chunk = memoryview(bytearray(_CHUNK))
    with open_binary(location) as file:
        while n_read := file.readinto(chunk):
            digest.update(chunk[:n_read])
            size += n_read
            if advance is not None:
                advance(n_read)
    return size, digest.hexdigest()


def _expand(entry: str) -> list[str]:
    entry = entry.removeprefix("file://")
    found = _expand_url(entry) if is_url(entry) else _expand_path(entry)
    if not found:
        raise InputError(
            entry,
            found="no file",
            expected="a ROOT file, a glob, a folder with *.root files, or a URL",
            remedy="check the path",
        )
    return found


def _expand_path(entry: str) -> list[str]:
    path = Path(entry)
    if path.is_dir():
        # If the folder itself has none: the files of a folder of runs are in its subfolders.
        return sorted(map(str, path.glob("*.root"))) or sorted(map(str, path.rglob("*.root")))
    if path.exists() or not has_magic(entry):
        return [entry] if path.exists() else []
    base = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(str(file) for file in base.glob(str(path.relative_to(base))) if file.is_file())


def no_answer(location: str, error: OSError) -> InputError:
    """The error for a URL whose server does not answer."""
    return InputError(
        location,
        found=f"no answer ({type(error).__name__}: {' '.join(str(error).split())[:120]})",
        expected="a Delphes ROOT file",
        remedy="check the URL and the network",
    )


def _expand_url(entry: str) -> list[str]:
    _check_protocol(entry)
    try:
        return _list_url(entry)
    except OSError as error:
        raise no_answer(entry, error) from error


def _list_url(entry: str) -> list[str]:
    system, path = fsspec.core.url_to_fs(entry)
    if has_magic(path):
        return sorted(str(system.unstrip_protocol(file)) for file in system.glob(path))
    if not entry.endswith(".root") and system.isdir(path):
        return sorted(
            str(system.unstrip_protocol(file)) for file in system.glob(f"{path.rstrip('/')}/*.root")
        )
    return [entry]


def _check_protocol(location: str) -> None:
    protocol = location.partition("://")[0].rpartition("::")[2]
    if protocol == "root":
        # The XRootD client reads them when it is loaded.
        for name, value in _XROOTD_PATIENCE.items():
            os.environ.setdefault(name, value)
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        if protocol in _EXTRAS:
            raise missing_extra(*_EXTRAS[protocol]) from error
        raise InputError(
            location,
            found=f"no package for {protocol}:// URLs",
            expected="the package that fsspec needs for them",
            remedy=str(error),
        ) from error
    except ValueError as error:
        raise InputError(
            location,
            found=f"a URL of kind {protocol!r}",
            expected=f"one of {', '.join(sorted(fsspec.available_protocols())[:12])}, …",
            remedy="check the URL",
        ) from error
