"""Tracks in files: any tracker's output enters, hits and track numbers by event leave; and back.

Read are Parquet and CSV with one row a hit (`event_id`, `hit_id`, `track_id`), as in a TrackML submission,
and ColliderML's `tracks`, one row an event with the hits of each track in `hit_ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from hepdata.errors import InputError
from hepdata.readers.trackml_files import RawFile, refuse_endless
from hepdata.readers.trackml_table import check_last_line

COLUMNS = ("event_id", "hit_id", "track_id")


@dataclass(frozen=True)
class TrackFile:
    """Hits of tracks, ordered by event.

    Axis: A hits of tracks. A hit may be in several tracks; hits in none are not listed.

    Attributes:
        source: Where they are from, for messages.
        events: Numbers of the events, ascending.
        offsets: Where each event begins, and the end.
        hit_id: (A,) number of the hit in its event.
        track_id: (A,) number of the track in its event, not negative.
    """

    source: str
    events: NDArray[np.int64]
    offsets: NDArray[np.int64]
    hit_id: NDArray[np.int64]
    track_id: NDArray[np.int64]

    def of_event(self, event_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hits and tracks of an event; none where the file does not have it."""
        at = int(np.searchsorted(self.events, event_id))
        if at == len(self.events) or self.events[at] != event_id:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = slice(self.offsets[at], self.offsets[at + 1])
        return self.hit_id[rows], self.track_id[rows]


def read_tracks(path: Path) -> TrackFile:
    """Read a file of tracks; negative track numbers mean that a hit is in none.

    Raises:
        InputError: The file is missing, unreadable, or has other columns.
    """
    table = _read_table(path)
    names = set(table.column_names)
    if {"event_id", "hit_ids"} <= names:
        columns = _flatten_tracks(path, table)
    elif set(COLUMNS) <= names:
        columns = [_as_numbers(path, name, table[name]) for name in COLUMNS]
    else:
        raise InputError(
            path,
            found=f"the columns {', '.join(table.column_names[:8])}",
            expected="event_id, hit_id and track_id, or ColliderML's event_id and hit_ids",
            remedy="rename the columns",
        )
    event, hit, track = columns
    kept = np.flatnonzero(track >= 0)
    order = kept[np.argsort(event[kept], kind="stable")]
    # An event without tracks is still an event of the file: nothing was found in it.
    events = np.unique(event)
    offsets = np.searchsorted(event[order], events)
    return TrackFile(str(path), events, np.r_[offsets, len(order)], hit[order], track[order])


def _read_table(path: Path) -> pa.Table:
    refuse_endless(path)
    try:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            _check_names(file.schema_arrow.names)
            wanted = [name for name in file.schema_arrow.names if name in (*COLUMNS, "hit_ids")]
            return file.read(wanted) if len(wanted) > 1 else file.schema_arrow.empty_table()
        content = RawFile(None, str(path)).read()
        table = csv.read_csv(pa.BufferReader(content))
        check_last_line(path, content)
        _check_names(table.column_names)
        return table
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            path,
            found=f"a file that cannot be read ({' '.join(str(error).split())[:200]})",
            expected="a Parquet or CSV file of tracks",
            remedy="check the path, or write the file again",
        ) from error


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError("a column twice")


def _as_numbers(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.int64]:
    try:
        if column.null_count:
            raise ValueError
        return np.asarray(column.cast(pa.int64()).to_numpy().astype(np.int64))
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            path,
            found=f"{name} of type {column.type} with values that are no whole numbers",
            expected="a whole number for every hit",
            remedy="write the numbers as integers",
        ) from error


def _flatten_tracks(path: Path, table: pa.Table) -> list[NDArray[np.int64]]:
    """Event, hit and number of the track, one entry a hit, of one row an event with a list of lists."""
    parts: list[list[NDArray[np.int64]]] = [[], [], []]
    try:
        for event, tracks in zip(table["event_id"].to_pylist(), table["hit_ids"].to_pylist(), strict=True):
            sizes = [len(hits) for hits in tracks or ()]
            hits = [np.asarray(hits, dtype=np.int64) for hits in tracks or ()]
            parts[0].append(np.full(sum(sizes), event, dtype=np.int64))
            parts[1].append(np.concatenate(hits) if hits else np.zeros(0, np.int64))
            parts[2].append(np.repeat(np.arange(len(sizes), dtype=np.int64), sizes))
    except (TypeError, ValueError) as error:
        raise InputError(
            path,
            found=f"hit_ids of type {table['hit_ids'].type}",
            expected="for every event a list of tracks, each a list of hits",
            remedy="give ColliderML's tracks, or a file with one row a hit",
        ) from error
    return [np.concatenate(part) if part else np.zeros(0, np.int64) for part in parts]
