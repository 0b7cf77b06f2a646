"""Find the Parquet files of ColliderML events, and where in them each event lies.

In: a folder or a file; out: an index of rows for every part of an event (tracker hits, particles, tracks).
Parts are recognised by their columns, not by the names of files and folders, which differ between releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.trackml_files import refuse_endless

# Columns by which a part is recognised; all of them are read.
PARTS: dict[str, tuple[str, ...]] = {
    "tracker_hits": ("x", "y", "z", "volume_id", "layer_id", "surface_id"),
    "particles": ("particle_id", "px", "py", "pz"),
    "tracks": ("hit_ids",),
}
# Read where a file has them.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "tracker_hits": ("particle_id", "time"),
    "particles": ("vertex_primary", "vx", "vy", "vz", "charge"),
    "tracks": ("track_id",),
}


@dataclass(frozen=True)
class PartIndex:
    """Where the events of one part are.

    Axis: V events, in ascending order of their ids.

    Attributes:
        part: Name of the part.
        files: Its files.
        columns: Columns to read, which all files have.
        event_id: (V,) ascending.
        file: (V,) position in `files`.
        group: (V,) row group in the file.
        row: (V,) row in the row group.
    """

    part: str
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    event_id: NDArray[np.int64]
    file: NDArray[np.int64]
    group: NDArray[np.int64]
    row: NDArray[np.int64]

    def find(self, event_id: int) -> tuple[Path, int, int]:
        """File, row group and row of an event.

        Raises:
            InputError: The part lacks the event.
        """
        at = int(np.searchsorted(self.event_id, event_id))
        if at == len(self.event_id) or self.event_id[at] != event_id:
            raise InputError(
                f"event {event_id}",
                found=f"no {self.part} in any of {len(self.files)} files",
                expected="every part of the event",
                remedy="add the file that holds it, or leave the event out",
            )
        return self.files[self.file[at]], int(self.group[at]), int(self.row[at])


def is_colliderml(raw: Path) -> bool:
    """Whether a path holds Parquet files: no other source of tracking events does."""
    return raw.suffix == ".parquet" or (raw.is_dir() and next(raw.rglob("*.parquet"), None) is not None)


def index_parts(raw: Path) -> dict[str, PartIndex]:
    """The parts under a folder (subfolders too), each with its rows in order of event ids.

    Raises:
        InputError: No tracker hits, a file that is no Parquet, or an event twice in a part.
    """
    files: dict[str, list[Path]] = {part: [] for part in PARTS}
    for path in sorted(raw.rglob("*.parquet")) if raw.is_dir() else [raw]:
        part = _recognise(_open(path).schema_arrow)
        if part is not None:
            files[part].append(path)
    if not files["tracker_hits"]:
        raise InputError(
            raw,
            found="no Parquet file with tracker hits",
            expected=f"ColliderML's tracker_hits, with {', '.join(PARTS['tracker_hits'])}",
            remedy="give the folder that holds the folders tracker_hits and particles",
        )
    return {part: _index(part, paths) for part, paths in files.items() if paths}


def unreadable(path: Path, error: Exception) -> InputError:
    """The error for a file that pyarrow cannot read."""
    return InputError(
        path,
        found=f"a file that cannot be read ({' '.join(str(error).split())[:200]})",
        expected="a complete Parquet file",
        remedy="copy or download the file again",
    )


def _open(path: Path) -> pq.ParquetFile:
    refuse_endless(path)
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if len(set(names)) < len(names):
            raise ValueError("a column twice")
        return file
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def _recognise(schema: pa.Schema) -> str | None:
    if "event_id" not in schema.names:
        return None
    return next((part for part, needed in PARTS.items() if set(needed) <= set(schema.names)), None)


def _index(part: str, paths: Sequence[Path]) -> PartIndex:
    columns, parts = set(OPTIONAL[part]), []
    for number, path in enumerate(paths):
        file = _open(path)
        columns &= set(file.schema_arrow.names)
        for group in range(file.num_row_groups):
            try:
                ids = file.read_row_group(group, columns=["event_id"])["event_id"]
                if ids.null_count or not pa.types.is_integer(ids.type):
                    raise ValueError(f"event_id of type {ids.type}, {ids.null_count} of {len(ids)} empty")
                event_id = ids.cast(pa.int64()).to_numpy()
                if len(event_id) and event_id.min() < 0:
                    raise ValueError(f"event_id of {event_id.min()}")
            except (OSError, pa.ArrowException, ValueError) as error:
                raise unreadable(path, error) from error
            where = np.full(len(event_id), number), np.full(len(event_id), group)
            parts.append(np.stack([event_id, *where, np.arange(len(event_id))]))
    rows = np.concatenate(parts, axis=1) if parts else np.empty((4, 0), np.int64)
    event_id, file_, group_, row = rows[:, np.argsort(rows[0], kind="stable")]
    doubled = np.flatnonzero(event_id[1:] == event_id[:-1])
    if len(doubled):
        at = int(doubled[0])
        raise InputError(
            paths[file_[at + 1]],
            found=f"the {part} of event {event_id[at]} again, which {paths[file_[at]]} holds too",
            expected="every event once",
            remedy="give the files of one process and pileup at a time",
        )
    chosen = (*PARTS[part], *(name for name in OPTIONAL[part] if name in columns))
    return PartIndex(part, tuple(paths), chosen, event_id, file_, group_, row)
