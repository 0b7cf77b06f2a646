"""Files with tables of points, of any of four formats: a path in, chunks of columns out.

A table is flat (a row is a point) or jagged (a row is an event, and its points are lists). A chunk is what is
read at a time: a row group of Parquet, a run of entries of ROOT or HDF5, a block of lines of CSV.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import HeptError, InputError, nearest_name
from hepdata.readers.delphes_files import name_of, version_of

FORMATS = {
    ".parquet": "hepdata.readers.table_parquet",
    ".csv": "hepdata.readers.table_csv",
    ".csv.gz": "hepdata.readers.table_csv",
    ".root": "hepdata.readers.table_root",
    ".h5": "hepdata.readers.table_hdf5",
    ".hdf5": "hepdata.readers.table_hdf5",
}
_EXPECTED = f"tables of points ({', '.join(FORMATS)})"


@dataclass(frozen=True)
class Lists:
    """A column with a list in every row: (rows + 1,) where each begins, and all values."""

    offsets: NDArray[np.int64]
    values: NDArray[Any]


Values = NDArray[Any] | Lists
Chunk = dict[str, Values]


class TableFile(Protocol):
    """An open file.

    Attributes:
        kinds: numpy's kind letter of every column: "f", "i", "u", "b", or another for what is no number.
        lists: The columns that have a list in every row.
        chunk_rows: Rows of every chunk.
    """

    kinds: Mapping[str, str]
    lists: frozenset[str]
    chunk_rows: Sequence[int]

    def read(self, chunk: int, names: Sequence[str]) -> Chunk:
        """Some columns of one chunk; ValueError where a value is missing."""


def find_tables(inputs: Sequence[str]) -> list[str]:
    """All files that the inputs name: paths and globs, in the given order, of one format.

    Raises:
        InputError: No file, an unknown format, several formats, or a file twice.
    """
    files: list[str] = []
    for entry in inputs:
        path = Path(entry)
        base = Path(path.anchor) if path.is_absolute() else Path()
        is_glob = has_magic(entry) and not path.exists()
        found = sorted(base.glob(str(path.relative_to(base)))) if is_glob else [path]
        files += [str(file.absolute()) for file in found if file.is_file()]
        if not any(file.is_file() for file in found):
            raise InputError(entry, found="no file", expected=_EXPECTED, remedy="check the path")
    for file in files:
        if files.count(file) > 1:
            raise InputError(
                file, found="the same file twice", expected="every file once", remedy="name it once"
            )
    formats = {_format_of(file) for file in files}
    if len(formats) > 1:
        raise InputError(
            files[0],
            found=f"files of {len(formats)} formats",
            expected="files of one format",
            remedy="build one dataset for each",
        )
    return files


def _format_of(file: str) -> str:
    name = name_of(file).lower()
    for suffix in sorted(FORMATS, key=len, reverse=True):
        if name.endswith(suffix):
            return FORMATS[suffix]
    raise InputError(
        file, found=f"a file called {name}", expected=_EXPECTED, remedy="convert it to one of these formats"
    )


_kept = threading.local()


def open_table(file: str, tree: str | None = None) -> TableFile:
    """Open a file; the one that a thread opened last stays open.

    Args:
        file: Path.
        tree: Tree of a ROOT file, group or dataset of an HDF5 file, where there are several.

    Raises:
        InputError: It is missing or damaged, or holds no table.
    """
    key = (file, tree, version_of(file))
    if getattr(_kept, "key", None) != key:
        _kept.key = _kept.chunk = None
        try:
            _kept.table = import_module(_format_of(file)).Table(file, tree)
        except HeptError:
            raise
        except Exception as error:  # Arrow, h5py and uproot raise almost anything on damaged bytes
            raise unreadable(file, error) from error
        _kept.key = key
    table: TableFile = _kept.table
    return table


def read_chunk(file: str, tree: str | None, chunk: int, names: tuple[str, ...]) -> Chunk:
    """Some columns of one chunk; the last one is kept, since several events are cut from it.

    Raises:
        InputError: A value is missing, or the bytes are damaged.
    """
    table = open_table(file, tree)
    if getattr(_kept, "chunk", None) != (chunk, names):
        _kept.chunk = None
        try:
            _kept.columns = table.read(chunk, names)
        except Exception as error:
            raise unreadable(file, error) from error
        _kept.chunk = (chunk, names)
    columns: Chunk = _kept.columns
    return columns


def check_column(table: TableFile, name: str, where: str, *, role: str) -> None:
    """Check that a column is there and holds numbers.

    Raises:
        InputError: It is missing, or of another type.
    """
    if name not in table.kinds:
        raise InputError(
            f"{where}, column {name!r}",
            found="no such column",
            expected=role,
            remedy=nearest_name(name, list(table.kinds)),
        )
    if table.kinds[name] not in "fiub":
        raise InputError(
            f"{where}, column {name!r}",
            found="values that are no numbers",
            expected=f"numbers in {role}",
            remedy="convert the column, or leave it out",
        )


def unreadable(file: str, error: Exception) -> InputError:
    """The error for a file, or a part of it, that its library cannot read."""
    return InputError(
        name_of(file),
        found=f"a part that cannot be read ({' '.join(str(error).split())[:200] or type(error).__name__})",
        expected="an intact file whose columns hold a number in every row",
        remedy="repair or write the file again",
    )


def choose_only(names: Sequence[str], wanted: str | None, where: str, what: str) -> str:
    """The tree that is asked for, or the only one.

    Raises:
        InputError: There is none, or there are several.
    """
    if wanted is not None and wanted not in names:
        remedy = nearest_name(wanted, list(names)) if names else "give another file"
        raise InputError(
            where, found=f"no {what} {wanted!r}", expected=f"the {what} of `tree`", remedy=remedy
        )
    if wanted is None and len(names) != 1:
        raise InputError(
            where,
            found=f"{len(names)} {what}s ({', '.join(names[:10])})",
            expected="one",
            remedy="name it as `tree` in the schema" if names else "give another file",
        )
    return wanted if wanted is not None else names[0]
