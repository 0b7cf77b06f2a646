"""The pages of a Parquet row group: where each column's bytes lie, and how to turn them into an array.

A shard has one row group per cloud and one page per column. That is plain Parquet for everybody, and lets
this package read a cloud without Arrow's decoding of repetition levels, which costs several times the
decompression itself. The writer notes every page in an index (`INDEX_DTYPE`); the reader checks each page's
bytes, header included, against the index's CRC-32.
"""

from __future__ import annotations

from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage import reused_memory

# head: bytes before the values (page header and levels); raw: bytes of the values once decompressed
INDEX_DTYPE = np.dtype(
    [
        ("offset", "<i8"),
        ("length", "<u4"),
        ("head", "<u4"),
        ("count", "<u4"),
        ("raw", "<u4"),
        ("crc", "<u4"),
        ("codec", "<u4"),
    ]
)
# What an entry's codec may be: Parquet's own numbers, and the one that files of format version 1 have for all
# that is compressed, by LZ4 in floats and negative pairs and by zstd in all else.
UNCOMPRESSED, BY_COLUMN, LZ4 = 0, 1, 7
_ZSTD = pa.Codec("zstd")


def encoding_of(dtype: str) -> str:
    """Floats compress best with their bytes regrouped by significance."""
    return "BYTE_STREAM_SPLIT" if dtype == "float32" else "PLAIN"


def decode_page(page: memoryview, entry: tuple[int, ...], column: Column) -> NDArray[Any]:
    """The values of one page that the index describes so."""
    _, length, head, count, raw, _, codec = entry
    dtype = column.dtype
    if count == 0:
        return np.empty(0, dtype)
    values = reused_memory.empty(raw, np.uint8)
    stored = page[head:length]
    if codec == UNCOMPRESSED:
        values[:] = stored
    elif codec == LZ4 or dtype == "float32" or column.name == "neg_idx":
        cramjam.lz4.decompress_block_into(stored, values.data, output_len=raw)
    else:
        values[:] = np.frombuffer(_ZSTD.decompress(stored, raw), np.uint8)
    if dtype == "bool":
        return np.unpackbits(values, count=count, bitorder="little").view(np.bool_)
    if encoding_of(dtype) == "BYTE_STREAM_SPLIT":
        return _join_bytes(values.reshape(4, count)).view(dtype)
    return values.view(dtype)


def _join_bytes(split: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Numbers from their bytes, (4, N) with the least significant first; faster than transposing."""
    numbers = np.empty((split.shape[1], 4), np.uint8)
    for place, part in enumerate(split):
        numbers[:, place] = part
    return numbers.reshape(-1)
