"""Tables of points in CSV files: a header line, then lines of numbers between commas, in blocks of lines."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from hepdata.readers.table_files import Chunk
from hepdata.readers.table_parquet import kind_of, values_of
from hepdata.readers.trackml_table import check_last_line

BLOCK = 1 << 23  # bytes
_TYPES = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_()}


class Table:
    """An open CSV file; see `hepdata.readers.table_files.TableFile`."""

    def __init__(self, file: str, tree: str | None) -> None:
        del tree
        self._path = Path(file)
        self.lists: frozenset[str] = frozenset()
        self._file = self._open()
        header = self._file.readline()
        self._names = [name.strip().strip('"') for name in header.decode("utf-8-sig").split(",")]
        if len(set(self._names)) < len(self._names) or "" in self._names:
            raise ValueError("a header without a name, or with one twice")
        self._blocks, self.chunk_rows, first, block = [], [], b"", header
        at = len(header)
        for block in _divide(self._file):
            first = first or block
            self._blocks.append((at, len(block)))
            self.chunk_rows.append(block.count(b"\n"))
            at += len(block)
        check_last_line(file, block)
        table = self._parse(first, self._names, {})
        self.kinds = {name: kind_of(table.schema.field(name).type) for name in self._names}

    def read(self, chunk: int, names: Sequence[str]) -> Chunk:
        """Some columns of one block of lines."""
        begin, length = self._blocks[chunk]
        self._file.seek(begin)
        types = {name: _TYPES[self.kinds[name]] for name in names}
        table = self._parse(self._file.read(length), names, types)
        if table.num_rows != self.chunk_rows[chunk]:
            raise ValueError("an empty line, or a line break between quotes")
        return {name: values_of(table.column(name), name) for name in names}

    def _open(self) -> BinaryIO:
        if self._path.suffix == ".gz":
            return gzip.open(self._path)  # type: ignore[return-value]  # seeking decompresses again
        return self._path.open("rb")

    def _parse(self, block: bytes, names: Sequence[str], types: dict[str, pa.DataType]) -> pa.Table:
        return pa_csv.read_csv(
            io.BytesIO(block or b"\n"),
            read_options=pa_csv.ReadOptions(
                column_names=self._names, use_threads=False, block_size=len(block) + 1
            ),
            parse_options=pa_csv.ParseOptions(ignore_empty_lines=not block),
            convert_options=pa_csv.ConvertOptions(include_columns=list(names), column_types=types),
        )


def _divide(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of whole lines."""
    while block := file.read(BLOCK):
        yield block + file.readline()
