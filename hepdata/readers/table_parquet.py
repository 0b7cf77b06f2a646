"""Tables of points in Parquet files, one row group at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hepdata.readers.table_files import Chunk, Lists, Values


class Table:
    """An open Parquet file; see `hepdata.readers.table_files.TableFile`."""

    def __init__(self, file: str, tree: str | None) -> None:
        del tree
        self._file = pq.ParquetFile(file)
        schema = self._file.schema_arrow
        self.lists = frozenset(name for name in schema.names if _is_list(schema.field(name).type))
        self.kinds = {name: kind_of(schema.field(name).type) for name in schema.names}
        metadata = self._file.metadata
        self.chunk_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def read(self, chunk: int, names: Sequence[str]) -> Chunk:
        """Some columns of one row group."""
        table = self._file.read_row_group(chunk, columns=list(names), use_threads=False)
        return {name: values_of(table.column(name), name) for name in names}


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def kind_of(kind: pa.DataType) -> str:
    """Numpy's kind letter of Arrow's type, of the elements of a list; "O" for what is no number."""
    if _is_list(kind):
        kind = kind.value_type
    if pa.types.is_floating(kind):
        return "f"
    if pa.types.is_integer(kind):
        return "u" if pa.types.is_unsigned_integer(kind) else "i"
    return "b" if pa.types.is_boolean(kind) else "O"


def values_of(column: pa.ChunkedArray, name: str) -> Values:
    """A column as numpy arrays.

    Raises:
        ValueError: A whole number or a list is missing.
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    # A missing float becomes NaN, which is reported later with its event.
    is_real = kind_of(array.type) == "f"
    if array.null_count and (not is_real or _is_list(array.type)):
        raise ValueError(f"{array.null_count} empty values in the column {name!r}")
    if not _is_list(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    values = array.flatten()
    if values.null_count and not is_real:
        raise ValueError(f"{values.null_count} empty values in the column {name!r}")
    offsets = np.asarray(array.offsets.to_numpy(), dtype=np.int64)
    return Lists(offsets - offsets[0], np.asarray(values.to_numpy(zero_copy_only=False)))
