"""Delphes events as a stream: a range of entries in, tables of at most a step's bytes out.

Ranges follow the baskets of the file, since a basket is decompressed as a whole; what a basket holds beyond
the range is kept for the next one, which usually follows.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from hepdata.errors import HeptError
from hepdata.readers.delphes import open_tree, unreadable
from hepdata.readers.delphes_branches import BranchMap
from hepdata.readers.delphes_events import ParticleTable, list_leaves, read_range
from hepdata.readers.delphes_files import name_of, version_of

# The caller still holds the last table while the next one is read.
_TABLES_PER_STEP = 2


class EventStream:
    """One file, and the last table that was read from it.

    Args:
        location: Path or URL.
        branches: Which leaves are read.
        labelled: Whether with the label.
        step_bytes: Uncompressed bytes of the leaves of all tables that are in memory.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, location: str, branches: BranchMap, *, labelled: bool, step_bytes: int) -> None:
        self.location = location
        self.branches = branches
        self.labelled = labelled
        per_entry, self._borders = self._measure_branches()
        self._most = max(int(step_bytes / per_entry / _TABLES_PER_STEP), 1)
        self._kept: ParticleTable | None = None

    def read(self, start: int, stop: int) -> Iterator[ParticleTable | HeptError]:
        """Entries [start, stop) in order: tables, and an error for each entry that cannot be read."""
        at = start
        if self._kept is not None and self._kept.first <= at < self._kept.stop:
            at = min(self._kept.stop, stop)
            yield self._kept.cut(start, at)
        while at < stop:
            self._kept = None
            begin, end = _choose_range(self._borders, at, stop, self._most)
            try:
                self._kept = self._read(begin, end)
            except HeptError:
                yield from self._read_one_by_one(at, min(end, stop))
            else:
                yield self._kept.cut(at, min(end, stop))
            at = min(end, stop)

    def _measure_branches(self) -> tuple[float, list[int]]:
        """Uncompressed bytes of an entry, and the entries at which a basket begins in every branch."""
        wanted = set(list_leaves(self.branches, labelled=self.labelled))
        with open_tree(self.location) as tree:
            try:
                chosen = [branch for branch in tree.itervalues(recursive=True) if branch.name in wanted]
                n_bytes = sum(branch.uncompressed_bytes for branch in chosen)
                return max(n_bytes / max(int(tree.num_entries), 1), 1.0), _common_borders(chosen)
            except Exception as error:  # uproot raises almost anything on offsets that make no sense
                raise unreadable(name_of(self.location), error) from error

    def _read(self, begin: int, end: int) -> ParticleTable:
        with open_tree(self.location) as tree:
            return read_range(
                tree, self.branches, begin, end, labelled=self.labelled, where=name_of(self.location)
            )

    def _read_one_by_one(self, begin: int, end: int) -> Iterator[ParticleTable | HeptError]:
        """A range with damage in it: only the damaged entries are lost."""
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
    """The entries to read for [at, stop): whole baskets if they fit into `most` entries."""
    after = bisect_right(borders, at)
    begin = borders[after - 1] if after else at
    if at - begin >= most:
        begin = at
    fitting = [border for border in borders[after:] if border <= begin + most]
    if fitting:
        return begin, next((border for border in fitting if border >= stop), fitting[-1])
    # One basket is larger than a step: read only the requested entries, up to a step.
    return at, min(stop, at + most)


def _common_borders(chosen: list[Any]) -> list[int]:
    """Entries at which a basket begins in every branch."""
    common = set(chosen[0].entry_offsets)
    for branch in chosen[1:]:
        common &= set(branch.entry_offsets)
    return sorted(int(entry) for entry in common)


_last = threading.local()


def stream_of(location: str, branches: BranchMap, *, labelled: bool, step_bytes: int) -> EventStream:
    """The stream of a file: the one that this thread used last, if it is the same.

    Raises:
        InputError: The file cannot be opened.
    """
    key = (os.getpid(), location, version_of(location), branches, labelled, step_bytes)
    if getattr(_last, "key", None) != key:
        # Cleared first: nothing is kept if the file cannot be opened.
        _last.key = _last.stream = None
        _last.stream = EventStream(location, branches, labelled=labelled, step_bytes=step_bytes)
        _last.key = key
    stream: EventStream = _last.stream
    return stream
