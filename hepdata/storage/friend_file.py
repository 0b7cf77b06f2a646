"""Answers for the particles of events as a file that goes beside the source: one entry an event.

In: named lists of numbers for each event, in the order of the source; out: a ROOT file with a tree `cleaned`,
to be used as a friend of the source's tree, or a Parquet file with one row an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors
from hepdata.storage.draft import draft_folder

TREE = "cleaned"
SUFFIXES = (".root", ".parquet")

Event = Mapping[str, NDArray[np.float32]]
"""Columns of one event, of one length."""


class FriendFile(Protocol):
    """A file that takes one event after the other."""

    def add(self, event: Event) -> None:
        """Append an event."""


@contextmanager
def write_friend(path: Path, columns: tuple[str, ...]) -> Iterator[FriendFile]:
    """A file to which events are added; it appears complete or not at all.

    Raises:
        InputError: Another suffix.
        JobError: The file cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(
            "`out`",
            found=f"{path.name!r}",
            expected=f"a file name that ends in {' or '.join(SUFFIXES)}",
            remedy="give such a name",
        )
    with draft_folder(path) as folder, disk_errors(path):
        staging = folder / path.name
        if path.suffix == ".root":
            with uproot.recreate(staging) as file:
                yield _Tree(file, columns)
        else:
            layout = pa.schema([(name, pa.list_(pa.float32())) for name in columns])
            with pq.ParquetWriter(staging, layout, compression="zstd") as writer:
                yield _Rows(writer, layout)
        staging.replace(path)


class _Tree:
    def __init__(self, file: uproot.WritableDirectory, columns: tuple[str, ...]) -> None:
        # One record for all columns, so that they share one counter.
        fields = ", ".join(f"{name}: float32" for name in columns)
        self._tree = file.mktree(
            TREE,
            {TREE: f"var * {{{fields}}}"},
            title="Pileup mitigation: friend of the source's tree",
            field_name=lambda outer, inner: f"{outer}_{inner}" if outer else inner,
            counter_name=lambda counted: f"{counted}_size",
        )

    def add(self, event: Event) -> None:
        lists = ak.zip({name: np.asarray(values, np.float32) for name, values in event.items()})
        self._tree.extend({TREE: ak.unflatten(lists, [len(lists)])})


class _Rows:
    def __init__(self, writer: pq.ParquetWriter, layout: pa.Schema) -> None:
        self._writer, self._layout = writer, layout

    def add(self, event: Event) -> None:
        rows = [pa.array([event[name]], self._layout.field(name).type) for name in self._layout.names]
        self._writer.write_table(pa.Table.from_arrays(rows, schema=self._layout))
