"""Tables of points in HDF5 files: a dataset with named fields, or a group of datasets of equal length."""

from __future__ import annotations

from collections.abc import Sequence

import h5py
import numpy as np

from hepdata.readers.table_files import Chunk, choose_only

ROWS = 1 << 18


class Table:
    """An open HDF5 file; see `hepdata.readers.table_files.TableFile`."""

    def __init__(self, file: str, tree: str | None) -> None:
        self._file = h5py.File(file, "r")
        self.lists: frozenset[str] = frozenset()
        found = self._file
        if tree is not None or not _columns_of(found):
            tables = [name for name, value in found.items() if _is_table(value)]
            if tree is not None and tree not in tables and tree in found:
                # A path below a group.
                tables.append(tree)
            found = found[choose_only(tables, tree, file, "table")]
        if isinstance(found, h5py.Dataset):
            self.kinds = {name: found.dtype[name].kind for name in found.dtype.names or ()}
            lengths = {len(found)}
        else:
            columns = _columns_of(found)
            self.kinds = {name: column.dtype.kind for name, column in columns.items()}
            lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"columns of {len(lengths)} different lengths")
        self._found, n_rows = found, lengths.pop()
        self.chunk_rows = [min(ROWS, n_rows - first) for first in range(0, n_rows, ROWS)]

    def read(self, chunk: int, names: Sequence[str]) -> Chunk:
        """Some columns of a run of rows."""
        rows = slice(chunk * ROWS, chunk * ROWS + self.chunk_rows[chunk])
        if isinstance(self._found, h5py.Dataset):
            table = self._found.fields(list(names))[rows]
            return {name: np.ascontiguousarray(table[name]) for name in names}
        return {name: np.asarray(self._found[name][rows]) for name in names}


def _columns_of(group: h5py.Group) -> dict[str, h5py.Dataset]:
    """The one-dimensional datasets without fields of a group."""
    return {
        name: value
        for name, value in group.items()
        if isinstance(value, h5py.Dataset) and value.ndim == 1 and value.dtype.names is None
    }


def _is_table(value: object) -> bool:
    if isinstance(value, h5py.Group):
        return bool(_columns_of(value))
    return isinstance(value, h5py.Dataset) and value.ndim == 1 and value.dtype.names is not None
