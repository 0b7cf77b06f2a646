"""The pages of a Parquet row group: where each column's bytes lie, and how to turn them into an array.

A shard has one row group per cloud and one page per column. That is plain Parquet for everybody, and lets
this package read a cloud without Arrow's decoding of repetition levels, which costs several times the
decompression itself. The writer notes every page in an index (`INDEX_DTYPE`); the reader checks each page's
bytes, header included, against the index's CRC-32.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.schema import Column

# head: bytes before the values (page header and levels); raw: bytes of the values once decompressed
INDEX_DTYPE = np.dtype(
    [
        ("offset", "<i8"),
        ("length", "<u4"),
        ("head", "<u4"),
        ("count", "<u4"),
        ("raw", "<u4"),
        ("crc", "<u4"),
        ("is_compressed", "<u4"),
    ]
)
# Only an address and a generous limit: every reader says how much of it there is. (ctypes keeps every array
# type that it ever made, so that there must not be one per size.)
_Memory = ctypes.c_uint8 * (2**31)
CODECS = {"zstd": pa.Codec("zstd"), "lz4": pa.Codec("lz4_raw")}


def compression_of(column: Column) -> str:
    """LZ4 for floats, which zstd makes hardly smaller, and for the many negative pairs; zstd for all else.

    LZ4 decodes three times as fast, which is what counts for the bulk of the bytes.
    """
    return "lz4" if column.dtype == "float32" or column.name == "neg_idx" else "zstd"


def encoding_of(dtype: str) -> str:
    """Floats compress best with their bytes regrouped by significance."""
    return "BYTE_STREAM_SPLIT" if dtype == "float32" else "PLAIN"


def index_row_group(content: bytes, offset: int) -> NDArray[Any]:
    """Find the pages of a row group.

    Args:
        content: The bytes of the row group.
        offset: Where they lie in the file.

    Returns:
        One `INDEX_DTYPE` entry per column.
    """
    entries, start = [], 0
    while start < len(content):
        header, header_length = _read_struct(content, start)
        data = header[8]
        levels = data[5] + data[6]
        length = header_length + header[3]
        entries.append(
            (
                offset + start,
                length,
                header_length + levels,
                data[1] - data[2],
                header[2] - levels,
                zlib.crc32(memoryview(content)[start : start + length]),
                int(data.get(7, True)),
            )
        )
        start += length
    return np.array(entries, dtype=INDEX_DTYPE)


def decode_page(page: memoryview, entry: tuple[int, ...], column: Column) -> NDArray[Any]:
    """The values of one page, as `index_row_group` described it."""
    _, length, head, count, raw, _, is_compressed = entry
    dtype = column.dtype
    if count == 0:
        return np.empty(0, dtype)
    values: Any = page[head:length]
    values = _decompress(CODECS[compression_of(column)], values, raw) if is_compressed else bytearray(values)
    if dtype == "bool":
        packed = np.frombuffer(values, np.uint8, (count + 7) // 8)
        return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)
    if encoding_of(dtype) == "BYTE_STREAM_SPLIT":
        return _join_bytes(np.frombuffer(values, np.uint8, 4 * count).reshape(4, count)).view(dtype)
    return np.frombuffer(values, dtype, count)


def _decompress(codec: pa.Codec, values: memoryview, size: int) -> Any:
    """Decompressed bytes that may be written to: nobody else holds them, though Arrow calls them constant."""
    buffer = codec.decompress(values, size)
    memory = _Memory.from_address(buffer.address)
    memory.owner = buffer  # type: ignore[attr-defined]
    return memory


def _join_bytes(split: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Numbers from their bytes, (4, N) with the least significant first; faster than transposing."""
    numbers: NDArray[np.uint32] = split[3].astype(np.uint32)
    for part in split[2::-1]:
        numbers <<= np.uint32(8)
        numbers |= part
    return numbers


# Thrift's compact protocol, as far as page headers use it: field types 1, 2 are booleans, 3–6 integers,
# 8 binary, 12 a struct.


def _read_struct(content: bytes, start: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    position, field = start, 0
    while content[position]:
        kind, step = content[position] & 15, content[position] >> 4
        position += 1
        if step:
            field += step
        else:
            field, position = _read_integer(content, position)
        if kind in (1, 2):
            fields[field] = kind == 1
        elif kind == 12:
            fields[field], length = _read_struct(content, position)
            position += length
        elif kind == 8:
            length, position = _read_varint(content, position)
            position += length
        else:
            fields[field], position = _read_integer(content, position)
    return fields, position + 1 - start


def _read_integer(content: bytes, position: int) -> tuple[int, int]:
    number, position = _read_varint(content, position)
    return (number >> 1) ^ -(number & 1), position


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
