"""Tables of points as a source of clouds: an index of the events, made in one pass over one column.

In: files and a description; out: an `EventSource`. Axis: S pieces, runs of rows of one event in one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError
from hepdata.features.table import make_cloud, table_schema
from hepdata.pipeline.event_range import ALL_EVENTS, EventRange
from hepdata.pipeline.event_source import EventRef, read_each
from hepdata.progress import Progress, Silent, counting
from hepdata.readers.delphes_files import checksum, name_of
from hepdata.readers.table_description import TableDescription, read_description
from hepdata.readers.table_files import (
    Lists,
    TableFile,
    check_column,
    find_tables,
    open_table,
    read_chunk,
)
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import SourceFile
from hepdata.storage.dataset.manifest_checks import find_column_problems


@dataclass(frozen=True)
class TableSource:
    """Tables with an index of their events; see `open_tables`.

    Attributes:
        files: Paths.
        description: What the columns are.
        schema: Of the clouds.
        index: (S, 5) event, file, chunk, first and last row of every piece, by event.
    """

    files: tuple[str, ...]
    description: TableDescription
    schema: Schema
    index: NDArray[np.int64] = field(repr=False)

    def list_events(self) -> list[EventRef]:
        """All events in order of their ids."""
        first = np.unique(self.index[:, 0], return_index=True)[1]
        return [EventRef(int(row[0]), name_of(self.files[row[1]])) for row in self.index[first]]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """Every file with events, with size and checksum."""
        listener, records = progress or Silent(), []
        used = [self.files[number] for number in np.unique(self.index[:, 1])]
        with counting(listener, "hashing the input", len(used), "file"):
            for file in used:
                size, digest = checksum(file)
                records.append(SourceFile(name=name_of(file), bytes=size, sha256=digest))
                listener.advance()
        return records

    def describe(self) -> dict[str, object]:
        """The description as JSON values."""
        return {"reader": "table", **self.description.model_dump(mode="json")}

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """One cloud per event; none for an event without points."""
        return read_each(events, self._read)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        wanted = [name for name in self.description.columns if self.schema.has_column(name)]
        return tuple(dict.fromkeys(self.description.source_of(name) for name in wanted))

    def _read(self, ref: EventRef) -> list[PointCloud]:
        where = f"{ref.source}, event {ref.event_id}"
        begin, end = (np.searchsorted(self.index[:, 0], ref.event_id, side) for side in ("left", "right"))
        parts = [self._cut(*map(int, piece), where=where) for piece in self.index[begin:end, 1:]]
        values = {name: np.concatenate([part[name] for part in parts]) for name in self._names}
        cloud = make_cloud(ref.event_id, values, self.description, self.schema, where)
        return [cloud] if cloud.n_points else []

    def _cut(
        self, file: int, chunk: int, begin: int, end: int, *, where: str
    ) -> dict[str, NDArray[np.generic]]:
        """The points of one piece; a value of a whole row is repeated for each of its points."""
        columns = read_chunk(self.files[file], self.description.tree, chunk, self._names)
        values, counts = {}, None
        for name, column in columns.items():
            if not isinstance(column, Lists):
                continue
            limits = column.offsets[begin : end + 1]
            values[name] = column.values[limits[0] : limits[-1]]
            if counts is not None and (counts != np.diff(limits)).any():
                raise InputError(
                    f"{where}, column {name!r}",
                    found=f"{np.diff(limits)[0]} values",
                    expected=f"{counts[0]}, as in the columns before",
                    remedy="list columns of one kind of points",
                )
            counts = np.diff(limits)
        for name, column in columns.items():
            if not isinstance(column, Lists):
                values[name] = column[begin:end] if counts is None else np.repeat(column[begin:end], counts)
        return values


def open_tables(
    inputs: Sequence[str],
    schema: str | Path,
    *,
    is_labelled: bool = True,
    events: EventRange = ALL_EVENTS,
) -> TableSource:
    """Find the files, check the description against them, and index their events.

    Raises:
        InputError: Files or a description that cannot be used, rows of an event in two places, or no event.
    """
    path = Path(schema)
    description = read_description(path)
    files = find_tables(inputs)
    stored = description.list_stored(is_labelled=is_labelled)
    for file in files:
        _check_columns(open_table(file, description.tree), description, stored, name_of(file))
    kinds = open_table(files[0], description.tree).kinds
    made = table_schema(description, kinds, str(path), is_labelled=is_labelled)
    problem = next(find_column_problems(made.columns, made.target), None)
    if problem is not None:
        raise InputError(
            path,
            found=problem,
            expected="columns that a dataset can store, each once: whole numbers for classes and `point_id`, "
            "a bool for `selection`",
            remedy="give the column another name or `dtype`",
        )
    index = _index_events(files, description)
    index = index[np.isin(index[:, 0], events.choose(index[:, 0], files[0]))]
    return TableSource(tuple(files), description, made, index)


def _check_columns(
    table: TableFile, description: TableDescription, stored: Sequence[str], where: str
) -> None:
    for name in stored:
        check_column(table, description.source_of(name), where, role=f"the column {name!r} of the schema")
    is_jagged = any(description.source_of(name) in table.lists for name in stored)
    if description.event is not None:
        check_column(table, description.event, where, role="the event number")
        if description.event in table.lists or table.kinds[description.event] not in "iu":
            raise InputError(
                f"{where}, column {description.event!r}",
                found="a list in every row"
                if description.event in table.lists
                else "numbers that are not whole",
                expected="one whole number in every row, the event number",
                remedy="name another column as `event` in the schema",
            )
    elif not is_jagged:
        raise InputError(
            where,
            found="no event number: one point in every row, and no `event` in the schema",
            expected="a column that says to which event a point belongs",
            remedy=f"write `event: NAME` with one of {', '.join(list(table.kinds)[:20])}",
        )


def _index_events(files: Sequence[str], description: TableDescription) -> NDArray[np.int64]:
    """(S, 5) the pieces of all events, by event.

    Raises:
        InputError: Rows of an event that do not follow one another, or negative event numbers.
    """
    parts, n_rows, is_jagged = [np.empty((0, 5), dtype=np.int64)], 0, False
    for number, file in enumerate(files):
        table = open_table(file, description.tree)
        is_jagged = any(description.source_of(name) in table.lists for name in description.columns)
        for chunk, length in enumerate(table.chunk_rows):
            if description.event is None:
                event = np.arange(n_rows, n_rows + length)
            else:
                values = read_chunk(file, description.tree, chunk, (description.event,))[description.event]
                event = np.asarray(values).astype(np.int64)
            n_rows += length
            starts = np.arange(length) if is_jagged else np.flatnonzero(np.diff(event, prepend=event[:1] - 1))
            ends = np.append(starts[1:], length)[: len(starts)]
            place = np.broadcast_to([number, chunk], (len(starts), 2))
            parts.append(np.column_stack([event[starts], place, starts, ends]))
    index = np.concatenate(parts)
    _check_order(index, files, is_jagged=is_jagged)
    return index[np.argsort(index[:, 0], kind="stable")]


def _check_order(index: NDArray[np.int64], files: Sequence[str], *, is_jagged: bool) -> None:
    """Pieces of one event must follow one another: the last rows of a chunk and the first of the next."""
    event, file, chunk, begin, _ = index.T
    if len(event) and event.min() < 0:
        raise InputError(
            name_of(files[file[event.argmin()]]),
            found=f"event {event.min()}",
            expected="event numbers from 0 on",
            remedy="number the events again",
        )
    follows = (event[1:] == event[:-1]) & (file[1:] == file[:-1]) & (chunk[1:] == chunk[:-1] + 1)
    is_new = np.append(True, ~(follows & (begin[1:] == 0) & (not is_jagged)))[: len(event)]
    first = event[is_new]
    numbers, counts = np.unique(first, return_counts=True)
    if (counts > 1).any():
        twice = numbers[counts > 1][0]
        where = np.flatnonzero(is_new & (event == twice))[1]
        raise InputError(
            name_of(files[file[where]]),
            found=f"rows of event {twice} in two places ({np.count_nonzero(counts > 1)} such events)",
            expected="all rows of an event next to each other, and every event in one file",
            remedy="sort the table by the event number, and number the events of several files differently",
        )
