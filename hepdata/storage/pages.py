"""The pages of a Parquet row group: where each column's bytes lie, and how to turn them into an array.

A shard has one row group per cloud and one page per column. That is plain Parquet for everybody, and lets
this package read a cloud without Arrow's decoding of repetition levels, which costs several times the
decompression itself. The writer notes every page in an index (`INDEX_DTYPE`); the reader checks each page's
bytes, header included, against the index's checksum.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from hepdata.schema import Column
from hepdata.storage import reused_memory

# head: bytes before the values (page header and levels); raw: bytes of the values once decompressed
_FIELDS = [("offset", "<i8"), ("length", "<u4"), ("head", "<u4"), ("count", "<u4"), ("raw", "<u4")]
INDEX_DTYPE = np.dtype([*_FIELDS, ("checksum", "<u8"), ("codec", "<u4")])
INDEX_KEY = b"hept.pages"
# Parquet's own numbers
UNCOMPRESSED, ZSTD, LZ4 = 0, 6, 7

# Format version 1: a CRC-32 of every page, and of the codec only whether there is one.
_V1_DTYPE = np.dtype([*_FIELDS, ("checksum", "<u4"), ("codec", "<u4")])
_V1_KEY = b"hept.index"
_ZSTD = pa.Codec("zstd")

# Plain tuples: numpy's records cost more to read than a page to decode.
Entry = tuple[int, ...]


def read_index(
    notes: Mapping[bytes, bytes], columns: Sequence[Column]
) -> tuple[list[Entry], Callable[[memoryview], int]]:
    """The index of a file's pages, one entry for each list column of each cloud, and what checks a page.

    Args:
        notes: Key-value metadata of the file.
        columns: List columns, in file order.
    """
    if INDEX_KEY in notes:
        return _unpack(notes[INDEX_KEY], INDEX_DTYPE).tolist(), xxhash.xxh3_64_intdigest
    index = _unpack(notes[_V1_KEY], _V1_DTYPE).astype(INDEX_DTYPE)
    codecs = [LZ4 if own.dtype == "float32" or own.name == "neg_idx" else ZSTD for own in columns]
    index["codec"] *= np.resize(np.array(codecs, np.uint32), len(index))
    return index.tolist(), zlib.crc32


def checksum_page(*parts: Any) -> int:
    """XXH3 of a page's bytes; a CRC is several times slower, and was a tenth of reading a cloud."""
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    return digest.intdigest()


def encoding_of(dtype: str) -> str:
    """Floats compress best with their bytes regrouped by significance."""
    return "BYTE_STREAM_SPLIT" if dtype == "float32" else "PLAIN"


def decode_page(page: memoryview, entry: Entry, column: Column) -> NDArray[Any]:
    """The values of one page that the index describes so."""
    _, length, head, count, raw, _, codec = entry
    dtype = column.dtype
    if count == 0:
        return np.empty(0, dtype)
    values = reused_memory.empty(raw, np.uint8)
    stored = page[head:length]
    if codec == UNCOMPRESSED:
        values[:] = stored
    elif codec == LZ4:
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


def _unpack(text: bytes, dtype: np.dtype[np.void]) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype)
