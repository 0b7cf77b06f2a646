"""One cloud as a row group: arrays in, the bytes of its pages and what the footer says of them out.

A row group has one row, so that a column is one list: its repetition levels are a zero and then ones, its
definition levels all the same. Both are run lengths of a few bytes, and the rest of a page is the values'
own memory, compressed. Arrow's writer, made for any nesting, spends more time on the levels than on that.

Files are plain Parquet (data pages of version 2 with checksums) for every reader.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage.columns import SCALARS
from hepdata.storage.pages import LZ4, UNCOMPRESSED, checksum_page, encoding_of
from hepdata.storage.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    binary,
    fields_of,
    integer,
    listing,
    struct,
    varint,
)

# Parquet's own numbers
TYPES = {"bool": 0, "int32": 1, "int64": 2, "float32": 4}
_ENCODINGS = {"PLAIN": 0, "RLE": 3, "BYTE_STREAM_SPLIT": 9}
_IS_DATA_PAGE_V2 = b"\x15\6"

# zstd in the columns of integers would make a file with pairs a fifteenth smaller, and its clouds a seventh
# slower to read: the columns are short, and zstd begins each by making its tables.
_COMPRESSOR = pa.Codec("lz4_raw")


@dataclass(frozen=True)
class RowGroup:
    """A cloud, encoded.

    Attributes:
        content: Bytes of its pages.
        entries: For every list column what `hepdata.storage.pages.INDEX_DTYPE` holds.
        metadata: Its struct in the file's footer.
    """

    content: bytes
    entries: list[tuple[int, ...]]
    metadata: bytes


class RowGroupEncoder:
    """Encodes clouds of one schema; what they have in common is made once.

    Args:
        columns: List columns, in file order.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._scalar_heads = [_describe(column, (column.name,), UNCOMPRESSED) for column in SCALARS]
        self._list_heads = [_describe(column, (column.name, "list", "element"), LZ4) for column in columns]

    def encode(self, row: Sequence[int], arrays: Mapping[str, NDArray[Any]], offset: int) -> RowGroup:
        """Encode one cloud.

        Args:
            row: Values of the scalar columns.
            arrays: Values of the list columns, contiguous.
            offset: Where the row group will lie in the file.
        """
        parts: list[Any] = []
        chunks, entries, start, n_raw = [], [], offset, 0
        for column, head, value in zip(SCALARS, self._scalar_heads, row, strict=True):
            content = np.array([value], column.dtype).tobytes()
            page = [_page_header(_frame(1, 0, len(content), False, False), content), content]
            length = len(page[0]) + len(content)
            chunks.append(_chunk(head, 1, length, length, start, limits=content))
            parts += page
            start += length
            n_raw += length
        for column, head in zip(self._columns, self._list_heads, strict=True):
            page, entry = _encode_list(arrays[column.name], column, start)
            raw = entry[2] + entry[4]
            chunks.append(_chunk(head, max(entry[3], 1), raw, entry[1], start))
            entries.append(entry)
            parts += page
            start += entry[1]
            n_raw += raw
        metadata = struct(
            (1, LIST, listing(STRUCT, chunks)),
            (2, I64, integer(n_raw)),
            (3, I64, integer(1)),
            (5, I64, integer(offset)),
            (6, I64, integer(start - offset)),
        )
        return RowGroup(b"".join(parts), entries, metadata)


def _encode_list(values: NDArray[Any], column: Column, offset: int) -> tuple[list[Any], tuple[int, ...]]:
    """One list as the parts of a page, and its index entry."""
    count = len(values)
    raw = _as_bytes(values, column.dtype)
    content: Any = _COMPRESSOR.compress(raw) if count else b""
    is_compressed = len(content) < raw.nbytes
    if not is_compressed:
        content = raw
    frame = _frame(count, _ENCODINGS[encoding_of(column.dtype)], raw.nbytes, is_compressed, True)
    start = _page_header(frame, content) + frame.levels
    length = len(start) + len(content)
    codec = LZ4 if is_compressed else UNCOMPRESSED
    checksum = checksum_page(start, content)
    return [start, content], (offset, length, len(start), count, raw.nbytes, checksum, codec)


def _as_bytes(values: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    """Values in the column's encoding; see `hepdata.storage.pages.decode_page` for the way back."""
    if dtype == "bool":
        return np.packbits(values, bitorder="little")
    if encoding_of(dtype) == "BYTE_STREAM_SPLIT":
        return np.ascontiguousarray(values.view(np.uint8).reshape(-1, values.itemsize).T).reshape(-1)
    return values.view(np.uint8)


@dataclass(frozen=True)
class _Frame:
    """What the header of a page says apart from the compressed content."""

    levels: bytes
    crc: int
    start: bytes
    end: bytes


# The columns of a cloud have the same length.
@lru_cache(maxsize=64)
def _frame(count: int, encoding: int, n_raw: int, is_compressed: bool, is_list: bool) -> _Frame:
    repetition = definition = b""
    if is_list:
        # An empty list is one place without a value; else the first value begins the row, the others
        # continue it.
        repetition = b"\2\0" + (varint(2 * (count - 1)) + b"\1" if count > 1 else b"")
        definition = varint(2 * count) + b"\1" if count else b"\2\0"
    levels = repetition + definition
    # Thrift spelled out: 0x15 is the next field, an I32; 0x4C the fourth after the last, a struct; 0x11 and
    # 0x12 the next, true and false; 0 the end of a struct.
    start = _IS_DATA_PAGE_V2 + b"\x15" + integer(len(levels) + n_raw) + b"\x15"
    end = (
        b"\x4c\x15" + integer(count or 1),
        # Nulls (an empty list counts as one), rows
        b"\x15\0\x15\2" if count else b"\x15\2\x15\2",
        b"\x15" + integer(encoding),
        b"\x15" + integer(len(definition)),
        b"\x15" + integer(len(repetition)),
        b"\x11\0\0" if is_compressed else b"\x12\0\0",
    )
    return _Frame(levels, zlib.crc32(levels), start, b"".join(end))


def _page_header(frame: _Frame, content: Any) -> bytes:
    crc = zlib.crc32(content, frame.crc)
    size = integer(len(frame.levels) + len(content))
    return frame.start + size + b"\x15" + integer(crc - 2**32 if crc >= 2**31 else crc) + frame.end


def _describe(column: Column, path: Sequence[str], codec: int) -> bytes:
    """The first fields of a column chunk's metadata, the same in every row group."""
    encodings = {_ENCODINGS["RLE"], _ENCODINGS[encoding_of(column.dtype)]}
    return fields_of(
        (
            (1, I32, integer(TYPES[column.dtype])),
            (2, LIST, listing(I32, [integer(number) for number in sorted(encodings)])),
            (3, LIST, listing(BINARY, [binary(name.encode()) for name in path])),
            (4, I32, integer(codec)),
        )
    )


def _chunk(head: bytes, n_values: int, n_raw: int, length: int, offset: int, limits: bytes = b"") -> bytes:
    """The metadata of a column chunk; `limits` is the value of a column that has only one."""
    statistics = b""
    if limits:
        statistics = b"\x3c" + struct(
            (3, I64, b"\0"), (5, BINARY, binary(limits)), (6, BINARY, binary(limits))
        )
    return b"".join(
        (
            # file_offset, which nobody uses, and the metadata
            b"\x26\0\x1c",
            head,
            # 0x16 and 0x26 are the next field and the one after it, an I64; 0x3C is the third, a struct.
            b"\x16" + integer(n_values),
            b"\x16" + integer(n_raw),
            b"\x16" + integer(length),
            b"\x26" + integer(offset),
            statistics,
            b"\0\0",
        )
    )
