"""Find the files of TrackML events in a folder or a zip, plain or gzipped.

In: a path; out: the existing files of every event, and their content.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hepdata.errors import InputError

_NAME = re.compile(
    r"(?:^|/)event(\d+)-(hits|cells|particles|truth|measurements|measurement-simhit-map)\.csv(\.gz)?$"
)
_DETECTORS = re.compile(r"(?:^|/)detectors?\.csv(\.gz)?$")


@dataclass(frozen=True)
class RawFile:
    """One file of a TrackML sample.

    Attributes:
        container: The zip that contains it; None for a file on disk.
        name: Path on disk, or name within the zip.
    """

    container: Path | None
    name: str

    def __str__(self) -> str:
        return f"{self.container}:{self.name}" if self.container else self.name

    def read(self) -> bytes:
        """The decompressed content.

        Raises:
            InputError: It cannot be read, or its compressed stream is truncated or damaged.
        """
        try:
            content = self._read_raw()
            return gzip.decompress(content) if self.name.endswith(".gz") else content
        except (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile) as error:
            raise InputError(
                self,
                found=f"a compressed stream that is truncated or damaged ({error})",
                expected="a complete gzip or zip member",
                remedy="copy or download the file again",
            ) from error
        except (OSError, KeyError, NotImplementedError, RuntimeError) as error:
            raise InputError(
                self,
                found=f"a file that cannot be read ({error})",
                expected="a readable CSV file",
                remedy="check the path and its permissions",
            ) from error

    def has_line_end(self) -> bool:
        """Whether its last line ends; compressed files are not opened, for their checksums show a cut.

        Raises:
            InputError: It cannot be read.
        """
        if self.container is not None or self.name.endswith(".gz"):
            return True
        refuse_endless(Path(self.name))
        try:
            with Path(self.name).open("rb") as stream:
                stream.seek(max(stream.seek(0, os.SEEK_END) - 1, 0))
                return stream.read() in (b"\n", b"\r", b"")
        except OSError as error:
            raise _unreadable(Path(self.name), error) from error

    def _read_raw(self) -> bytes:
        if self.container is None:
            refuse_endless(Path(self.name))
            return Path(self.name).read_bytes()
        with zipfile.ZipFile(self.container) as archive:
            return archive.read(self.name)


@dataclass(frozen=True)
class EventFiles:
    """The files of one event that exist, by part."""

    event_id: int
    stem: str
    parts: Mapping[str, RawFile]

    @property
    def has_truth(self) -> bool:
        """Whether there is a truth or particles file."""
        return not self.parts.keys().isdisjoint(("truth", "particles", "measurement-simhit-map"))

    @property
    def is_acts(self) -> bool:
        """Whether ACTS wrote the event, rather than the challenge."""
        return "measurements" in self.parts


def find_events(raw: Path) -> list[EventFiles]:
    """Every event under a folder (subfolders too) or in a zip, in event-id order.

    Raises:
        InputError: The path does not exist, has no event, or has a part of an event twice.
    """
    parts: dict[int, dict[str, RawFile]] = {}
    for file in _iterate_files(raw):
        match = _NAME.search(file.name)
        if match is None:
            continue
        part = match[2]
        event_id = _read_event_id(match[1], file)
        known = parts.setdefault(event_id, {})
        if part in known:
            raise InputError(
                raw,
                found=f"the {part} of event {event_id} twice: {known[part]} and {file}",
                expected="every event once",
                remedy="remove one of the two files",
            )
        known[part] = file
    if not parts:
        raise InputError(
            raw,
            found="no event",
            expected="files named event#########-{hits,cells,particles,truth}.csv or .csv.gz",
            remedy="give the folder or zip that holds the TrackML events",
        )
    return [EventFiles(number, _stem(parts[number]), parts[number]) for number in sorted(parts)]


def refuse_endless(path: Path) -> None:
    """Refuse a pipe, socket or device: reading it may never end.

    Raises:
        InputError: The path is one of these.
    """
    if path.exists() and not path.is_file():
        raise InputError(
            path,
            found="a pipe, a device or a folder",
            expected="a file on disk",
            remedy="write the content to a file first",
        )


def find_detectors(raw: Path) -> RawFile | None:
    """The detectors file next to the events, if there is exactly one."""
    found = [file for file in _iterate_files(raw) if _DETECTORS.search(file.name)]
    return found[0] if len(found) == 1 else None


def find_json(raw: Path) -> list[RawFile]:
    """Every JSON file next to the events."""
    return list(_iterate_files(raw, ".json"))


def checksum_files(files: list[Path]) -> list[tuple[int, str]]:
    """(bytes, sha256) of each file; the hashes are computed in parallel, for samples can be tens of GB."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(_checksum, files))


def _checksum(path: Path) -> tuple[int, str]:
    refuse_endless(path)
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return path.stat().st_size, digest
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        path,
        found=f"a file that cannot be read ({error.strerror})",
        expected="a readable raw file",
        remedy="check the path and its permissions",
    )


def _iterate_files(raw: Path, suffix: str = ".csv") -> Iterator[RawFile]:
    if raw.is_dir():
        for path in sorted(raw.rglob(f"*{suffix}*")):
            yield RawFile(None, str(path))
    elif raw.is_file():
        try:
            with zipfile.ZipFile(raw) as archive:
                names = sorted(archive.namelist())
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(
                raw,
                found=f"a file that is not a zip archive ({error})",
                expected="a folder or a zip of TrackML events",
                remedy="give the folder that holds the CSV files, or the zip as it was downloaded",
            ) from error
        yield from (
            RawFile(raw, name) for name in names if suffix in name and not name.startswith("__MACOSX/")
        )
    else:
        refuse_endless(raw)
        raise InputError(
            raw,
            found="nothing at this path",
            expected="a folder or a zip of TrackML events",
            remedy="check the path",
        )


def _read_event_id(digits: str, file: RawFile) -> int:
    # Convert at most the digits of an int64: Python refuses strings of thousands of digits.
    if len(digits.lstrip("0")) > 19 or int(digits[-19:]) >= 2**63:
        raise InputError(
            file,
            found=f"the event number {digits[:30]}",
            expected=f"at most {2**63 - 1}: it is stored as a 64-bit integer",
            remedy="rename the files of the event",
        )
    return int(digits[-19:])


def _stem(parts: Mapping[str, RawFile]) -> str:
    name = Path(next(iter(parts.values())).name).name
    return name.rsplit("-", 1)[0]
