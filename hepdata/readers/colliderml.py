"""ColliderML events: tracker hits, particles and tracks of one event, joined by its id.

In: an index of rows (`colliderml_files`); out: arrays by name, as pyarrow reads them. A row group is decoded
a few events at a time: memory is bounded by its compressed size, not by that of the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.colliderml_files import PartIndex, unreadable

Columns = Mapping[str, NDArray[Any]]
# Decoded bytes that are kept of each part.
STEP_BYTES = 32_000_000
# mm, and GeV: beyond every detector and collider.
_LARGEST = {"x": 1e5, "y": 1e5, "z": 1e5, "px": 1e6, "py": 1e6, "pz": 1e6, "volume_id": 2**15 - 1}
_LARGEST |= {"layer_id": 2**15 - 1, "surface_id": 2**31 - 1, "time": 1e9, "vertex_primary": 2**31 - 1}
_LARGEST |= {"vx": 1e9, "vy": 1e9, "vz": 1e9, "charge": 100}
_WHOLE = frozenset({"volume_id", "layer_id", "surface_id", "vertex_primary", "track_id"})
_SIGNED = frozenset({"x", "y", "z", "px", "py", "pz", "time", "vertex_primary", "vx", "vy", "vz", "charge"})


@dataclass(frozen=True)
class ColliderMLEvent:
    """One event.

    Axes: J hits, K particles in order of their ids, T tracks.

    Attributes:
        event_id: Event number.
        source: File of its hits, for messages.
        hits: x, y, z (mm), volume_id, layer_id, surface_id; particle_id and time (ns) if the file has them.
        particles: particle_id, px, py, pz (GeV); vertex_primary, vx, vy, vz (mm) and q if the file has them.
            None if not requested.
        track_ids: (T,) numbers of the tracks; None if there are none.
        track_hits: For every track the positions of its hits, flat.
        track_offsets: (T + 1,) where each track begins in `track_hits`.
    """

    event_id: int
    source: str
    hits: Columns
    particles: Columns | None
    track_ids: NDArray[np.int64] | None = None
    track_hits: NDArray[np.int64] | None = None
    track_offsets: NDArray[np.int64] | None = None


def read_event(parts: Mapping[str, PartIndex], event_id: int, *, with_truth: bool) -> ColliderMLEvent:
    """Read one event; events are cheapest in the order of their files.

    Raises:
        InputError: A part is missing or damaged, lists have different lengths, or a value is impossible.
    """
    path, columns = _read_row(parts["tracker_hits"], event_id)
    where = f"{path}, event {event_id}"
    hits = _as_arrays(columns, where)
    if not len(hits["x"]):
        raise InputError(
            where, found="no hits", expected="at least one hit", remedy="leave the empty event out"
        )
    particles = None
    if with_truth:
        file, columns = _read_row(parts["particles"], event_id)
        particles = _sort_particles(
            _as_arrays(columns, f"{file}, event {event_id}"), f"{file}, event {event_id}"
        )
    if "tracks" not in parts:
        return ColliderMLEvent(event_id, str(path), hits, particles)
    file, columns = _read_row(parts["tracks"], event_id)
    tracks = _read_tracks(columns, len(hits["x"]), f"{file}, event {event_id}")
    return ColliderMLEvent(event_id, str(path), hits, particles, *tracks)


class _Cursor:
    """A row group as a stream of batches, which goes forward only."""

    def __init__(self, path: Path, group: int, columns: tuple[str, ...]) -> None:
        # With a buffer: otherwise pyarrow reads a whole column of the row group at once.
        self._file = pq.ParquetFile(path, buffer_size=1 << 20)
        about = self._file.metadata.row_group(group)
        # Decoded values, 8 bytes at most: the bytes of the metadata are those of encoded values.
        chunks = [about.column(number) for number in range(about.num_columns)]
        n_values = sum(chunk.num_values for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns)
        n_events = max(int(STEP_BYTES * about.num_rows / max(8 * n_values, 1)), 1)
        self._batches: Iterator[pa.RecordBatch] = self._file.iter_batches(
            n_events, row_groups=[group], columns=list(columns), use_threads=False
        )
        self.first = 0
        self._batch: pa.RecordBatch | None = None

    def read(self, row: int) -> dict[str, pa.Array]:
        """Read the lists of one row; rows must be asked for in ascending order."""
        while self._batch is None or row >= self.first + self._batch.num_rows:
            self.first += 0 if self._batch is None else self._batch.num_rows
            self._batch = next(self._batches)
        names = self._batch.schema.names
        return {
            name: _list_at(column, row - self.first)
            for name, column in zip(names, self._batch.columns, strict=True)
        }


_last = threading.local()


def _read_row(index: PartIndex, event_id: int) -> tuple[Path, dict[str, pa.Array]]:
    """The lists of one event, from the cursor that this thread used last if it is not yet past the event."""
    path, group, row = index.find(event_id)
    cursors: dict[str, tuple[tuple[object, ...], _Cursor]] = _last.__dict__.setdefault("cursors", {})
    try:
        about = path.stat()
        key = (os.getpid(), path, about.st_mtime_ns, about.st_size, group, index.columns)
        known = cursors.get(index.part)
        if known is None or known[0] != key or row < known[1].first:
            # Cleared first, so that only one decoded batch is in memory, and none after an error.
            cursors.pop(index.part, None)
            cursors[index.part] = (key, _Cursor(path, group, index.columns))
        return path, cursors[index.part][1].read(row)
    except (OSError, pa.ArrowException, StopIteration, IndexError) as error:
        cursors.pop(index.part, None)
        raise unreadable(path, error) from error


def _list_at(column: pa.Array, row: int) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if not isinstance(column, pa.ListArray | pa.LargeListArray):
        raise pa.ArrowTypeError(f"{column.type} in place of a list")
    if column.is_null()[row].as_py():
        return pa.nulls(1)
    begin, end = column.offsets[row].as_py(), column.offsets[row + 1].as_py()
    return column.values[begin:end]


def _as_arrays(columns: Mapping[str, pa.Array], where: str) -> dict[str, NDArray[Any]]:
    arrays = {name: _as_array(values, name, where) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise _bad(where, f"lists of different lengths {lengths}", "one value of each column per point")
    return arrays


def _as_array(values: pa.Array, name: str, where: str) -> NDArray[Any]:
    """The values as numpy has them; ids as int64, exactly."""
    if values.null_count:
        raise _bad(where, f"no value in {name}", "a number for every point")
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in ("iu" if name in _WHOLE else "iufb"):
        raise _bad(where, f"{name} of type {values.type}", f"{'whole ' if name in _WHOLE else ''}numbers")
    if name == "particle_id":
        return _as_ids(array, where)
    if not len(array):
        return array
    lowest, highest = array.min().item(), array.max().item()
    limit = _LARGEST.get(name, 2**63 - 1)
    # NaN fails this comparison too.
    if not (lowest >= (-limit if name in _SIGNED else 0) and highest <= limit):
        raise _bad(where, f"{name} from {lowest} to {highest}", f"numbers up to {limit:g}")
    return array


def _as_ids(array: NDArray[Any], where: str) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise _bad(where, f"particle_id of type {array.dtype}", "integers: a float cannot hold every id")
    ids: NDArray[np.int64] = array.astype(np.int64, copy=False)
    if len(ids) and ids.min() < 0:
        raise _bad(where, f"a particle_id of {array[ids.argmin()]}", "ids from 0 to 2^63 − 1")
    return ids


def _sort_particles(particles: dict[str, NDArray[Any]], where: str) -> dict[str, NDArray[Any]]:
    order = np.argsort(particles["particle_id"], kind="stable")
    ordered = {"q" if name == "charge" else name: values[order] for name, values in particles.items()}
    ids = ordered["particle_id"]
    doubled = np.flatnonzero(ids[1:] == ids[:-1])
    if len(doubled):
        raise _bad(where, f"particle {ids[doubled[0]]} twice", "every particle once")
    if len(ids) and ids[0] == 0:
        raise _bad(where, "a particle with the id 0", "ids from 1 on: 0 stands for hits without a particle")
    return ordered


def _read_tracks(
    columns: Mapping[str, pa.Array], n_hits: int, where: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    lists = columns["hit_ids"]
    if lists.null_count or not pa.types.is_list(lists.type) or not pa.types.is_integer(lists.type.value_type):
        raise _bad(where, f"hit_ids of type {lists.type}", "a list of hits for every track")
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values[offsets[0] : offsets[-1]]
    if values.null_count:
        raise _bad(where, "an empty value in hit_ids", "a hit in every place")
    hits = values.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(hits) and (hits.min() < 0 or hits.max() >= n_hits):
        raise _bad(where, f"hits {hits.min()} to {hits.max()} in tracks", f"positions below {n_hits} hits")
    ids = columns.get("track_id")
    numbers = np.arange(len(lists)) if ids is None else _as_array(ids, "track_id", where).astype(np.int64)
    if len(numbers) != len(lists):
        raise _bad(where, f"{len(numbers)} track_id for {len(lists)} tracks", "one number per track")
    return numbers, hits, offsets - offsets[0]


def _bad(where: str, found: str, expected: str) -> InputError:
    return InputError(
        where,
        found=found,
        expected=expected,
        remedy="download the file again, or skip such events with `on_error='skip'`",
    )
