"""The pages of a Parquet row group: where each column's bytes lie, and how to turn them into an array.

A shard has one row group per cloud and one page per column. That is plain Parquet for everybody, and lets
this package read a cloud without Arrow's decoding of repetition levels, which costs several times the
decompression itself. The writer notes every page in an index (`INDEX_DTYPE`); the reader checks each page's
bytes, header included, against the index's CRC-32.
"""

from __future__ import annotations

import ctypes
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


def decode_page(page: memoryview, entry: tuple[int, ...], column: Column) -> NDArray[Any]:
    """The values of one page that the index describes so."""
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
