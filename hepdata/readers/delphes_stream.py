"""Delphes events as a stream: a range of entries in, tables of at most a step's bytes out.

Ranges follow the baskets of the file, since a basket is decompressed as a whole; what a basket holds beyond
the range is kept for the next one, which usually follows.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from hepdata.errors import HeptError
from hepdata.readers.delphes import open_tree
from hepdata.readers.delphes_branches import BranchMap
from hepdata.readers.delphes_events import ParticleTable, list_leaves, read_range
from hepdata.readers.delphes_files import name_of, version_of


class EventStream:
    """One file, and the last table that was read from it.

    Args:
        location: Path or URL.
        branches: Which leaves are read.
        labelled: Whether with the label.
        step_bytes: Uncompressed bytes of the leaves of one table.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, location: str, branches: BranchMap, *, labelled: bool, step_bytes: int) -> None:
        self.location = location
        self.branches = branches
        self.labelled = labelled
        wanted = set(list_leaves(branches, labelled=labelled))
        with open_tree(location) as tree:
            chosen = [branch for branch in tree.itervalues(recursive=True) if branch.name in wanted]
            n_entries = max(int(tree.num_entries), 1)
        per_entry = sum(branch.uncompressed_bytes for branch in chosen) / n_entries
        self._most = max(int(step_bytes / max(per_entry, 1.0)), 1)
        self._borders = _common_borders(chosen)
        self._kept: ParticleTable | None = None

    def read(self, start: int, stop: int) -> Iterator[ParticleTable | HeptError]:
        """Entries [start, stop) in order: tables, and for an entry that does not read, the reason.

        A table or an error stands for the entries that follow those before it; an error for one entry.
        """
        at = start
        while at < stop:
            if self._kept is None or not self._kept.first <= at < self._kept.stop:
                # Released first: at no time are there two tables.
                self._kept = None
                begin, end = _choose_range(self._borders, at, stop, self._most)
                try:
                    self._kept = self._read(begin, end)
                except HeptError:
                    yield from self._read_one_by_one(at, min(end, stop))
                    at = min(end, stop)
                    continue
            end = min(self._kept.stop, stop)
            yield self._kept.cut(at, end)
            at = end

    def _read(self, begin: int, end: int) -> ParticleTable:
        with open_tree(self.location) as tree:
            return read_range(
                tree, self.branches, begin, end, labelled=self.labelled, where=name_of(self.location)
            )

    def _read_one_by_one(self, begin: int, end: int) -> Iterator[ParticleTable | HeptError]:
        """A range with damage in it: only the entries that are hit are lost."""
        for entry in range(begin, end):
            try:
                yield self._read(entry, entry + 1)
            except HeptError as error:
                yield type(error)(
                    f"{error.where}, entry {entry}",
                    found=error.found,
                    expected=error.expected,
                    remedy=error.remedy,
                )


def _choose_range(borders: list[int], at: int, stop: int, most: int) -> tuple[int, int]:
    """The entries to read for [at, stop): whole baskets where a step has room for them, at most `most`."""
    after = bisect_right(borders, at)
    begin = borders[after - 1] if after else at
    if at - begin >= most:
        begin = at
    reach = bisect_right(borders, begin + most)
    if reach > after:
        enough = bisect_left(borders, stop, after, reach)
        return begin, borders[min(enough, reach - 1)]
    # One basket fills more than a step: take what is asked for, as far as a step reaches.
    return at, min(stop, at + most)


def _common_borders(chosen: list[Any]) -> list[int]:
    """Entries at which a basket begins in every branch."""
    common = set(chosen[0].entry_offsets)
    for branch in chosen[1:]:
        common &= set(branch.entry_offsets)
    return sorted(int(entry) for entry in common)


_last = threading.local()


def stream_of(location: str, branches: BranchMap, *, labelled: bool, step_bytes: int) -> EventStream:
    """The stream of a file: the one that this thread used last, where it is the same.

    Raises:
        InputError: The file cannot be opened.
    """
    key = (location, version_of(location), branches, labelled, step_bytes)
    if getattr(_last, "key", None) != key:
        _last.key = _last.stream = None
        _last.stream = EventStream(location, branches, labelled=labelled, step_bytes=step_bytes)
        _last.key = key
    stream: EventStream = _last.stream
    return stream
