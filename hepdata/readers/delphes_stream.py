"""Delphes events as a stream: a range of entries in, tables of at most a step's bytes out.

Ranges follow the baskets of the file, since a basket is decompressed as a whole; what a basket holds beyond
the range is kept for the next one, which usually follows. While a table is worked on, a thread of the stream
reads the one after it: most of reading is decompression, which leaves the interpreter to others.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from hepdata.errors import HeptError
from hepdata.readers.delphes import adopt_tree, close_tree, open_tree, release_tree, unreadable
from hepdata.readers.delphes_branches import BranchMap
from hepdata.readers.delphes_events import ParticleTable, list_leaves, read_range
from hepdata.readers.delphes_files import name_of, version_of

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Two tables are in memory at a time. Both together take a step at most; smaller ones keep both sides busy,
# but uproot takes several milliseconds for any table.
_TABLES_PER_STEP = 2
_PREFERRED_PER_STEP = 4


class EventStream:
    """One file, the last table that was read from it, and who reads.

    Args:
        location: Path or URL.
        branches: Which leaves are read.
        labelled: Whether with the label.
        step_bytes: Uncompressed bytes of the leaves of all tables that are in memory.
        is_ahead: Whether a thread reads the next table while one is worked on.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(
        self,
        location: str,
        branches: BranchMap,
        *,
        labelled: bool,
        step_bytes: int,
        is_ahead: bool = True,
    ) -> None:
        self.location = location
        self.branches = branches
        self.labelled = labelled
        # One thread, and the same for all tables: it keeps the tree open, perhaps the one that was looked at.
        self._thread: Executor = (
            ThreadPoolExecutor(1, "delphes", adopt_tree, release_tree()) if is_ahead else _Here()
        )
        self._n_readings, self._is_given_up = 0, False
        try:
            per_entry, self._borders = self._thread.submit(self._measure_branches).result()
        except HeptError:
            self.close()
            raise
        self._most = max(int(step_bytes / per_entry / _TABLES_PER_STEP), 1)
        self._preferred = max(int(step_bytes / per_entry / _PREFERRED_PER_STEP), 1)
        self._kept: ParticleTable | None = None

    def read(self, start: int, stop: int) -> Iterator[ParticleTable | HeptError]:
        """Entries [start, stop) in order: tables, and for an entry that does not read, the reason.

        A table or an error stands for the entries that follow those before it; an error for one entry.
        """
        self._n_readings += 1
        try:
            yield from self._read_ahead(start, stop)
        finally:
            self._n_readings -= 1
            if self._is_given_up:
                self.close()

    def close(self) -> None:
        """Close the file once no reading is under way; the thread ends when it has done so."""
        self._is_given_up = True
        if not self._n_readings:
            self._thread.submit(close_tree)
            self._thread.shutdown(wait=False)

    def _read_ahead(self, start: int, stop: int) -> Iterator[ParticleTable | HeptError]:
        at = start
        if self._kept is not None and self._kept.first <= at < self._kept.stop:
            at = min(self._kept.stop, stop)
            yield self._kept.cut(start, at)
        # Released before the next is read: at no time are there more than two tables.
        coming = self._begin(at, start, stop)
        try:
            while coming is not None:
                self._kept = None
                (begin, end), table = coming
                try:
                    self._kept = table.result()
                except HeptError:
                    coming = None
                    yield from self._read_one_by_one(at, min(end, stop))
                    coming = self._begin(min(end, stop), start, stop)
                else:
                    coming = self._begin(min(end, stop), start, stop)
                    yield self._kept.cut(max(begin, at), min(end, stop))
                at = min(end, stop)
                del table
        finally:
            if coming is not None:
                coming[1].cancel()

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

    def _begin(self, at: int, start: int, stop: int) -> tuple[tuple[int, int], Future[ParticleTable]] | None:
        """Let the thread read the table that holds entry `at` of [start, stop), if there is one to read."""
        if at >= stop:
            return None
        # Small ones first and last: nobody has work before the first, and nothing is read after the last.
        preferred = max(min(self._preferred, at - start, (stop - at) // 2), 1)
        begin, end = _choose_range(self._borders, at, stop, self._most, preferred)
        return (begin, end), self._thread.submit(self._read, begin, end)

    def _read(self, begin: int, end: int) -> ParticleTable:
        with open_tree(self.location) as tree:
            return read_range(
                tree, self.branches, begin, end, labelled=self.labelled, where=name_of(self.location)
            )

    def _read_one_by_one(self, begin: int, end: int) -> Iterator[ParticleTable | HeptError]:
        """A range with damage in it: only the entries that are hit are lost."""
        for entry in range(begin, end):
            try:
                yield self._thread.submit(self._read, entry, entry + 1).result()
            except HeptError as error:
                yield type(error)(
                    f"{error.where}, entry {entry}",
                    found=error.found,
                    expected=error.expected,
                    remedy=error.remedy,
                )


class _Here(Executor):
    """Does at once, in the thread that asks, what it is given."""

    def submit(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        done: Future[_T] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def _choose_range(borders: list[int], at: int, stop: int, most: int, preferred: int) -> tuple[int, int]:
    """The entries to read for [at, stop): whole baskets where a step has room for them, at most `most`.

    Of whole baskets as few as make up `preferred` entries.
    """
    after = bisect_right(borders, at)
    begin = borders[after - 1] if after else at
    if at - begin >= most:
        begin = at
    reach = bisect_right(borders, begin + most)
    if reach > after:
        enough = bisect_left(borders, min(stop, begin + preferred), after, reach)
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


def stream_of(
    location: str, branches: BranchMap, *, labelled: bool, step_bytes: int, is_ahead: bool = True
) -> EventStream:
    """The stream of a file: the one that this thread used last, where it is the same.

    Raises:
        InputError: The file cannot be opened.
    """
    # A forked process has no thread of its parent's.
    key = (os.getpid(), location, version_of(location), branches, labelled, step_bytes, is_ahead)
    if getattr(_last, "key", None) != key:
        if getattr(_last, "key", None) is not None and _last.key[0] == os.getpid():
            _last.stream.close()
        _last.key = _last.stream = None
        _last.stream = EventStream(
            location, branches, labelled=labelled, step_bytes=step_bytes, is_ahead=is_ahead
        )
        _last.key = key
    stream: EventStream = _last.stream
    return stream
