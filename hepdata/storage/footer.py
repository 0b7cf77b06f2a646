"""The end of a Parquet file: its schema, its row groups and its notes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from hepdata.schema import Column
from hepdata.storage.columns import SCALARS
from hepdata.storage.page_writer import TYPES
from hepdata.storage.thrift import BINARY, I32, I64, LIST, STRUCT, Field, binary, integer, listing, struct

MAGIC = b"PAR1"
_REQUIRED, _REPEATED = integer(0), integer(2)
_CONVERTED_LIST = integer(3)


def make_footer(
    columns: tuple[Column, ...], layout: pa.Schema, row_groups: Sequence[bytes], notes: Mapping[bytes, bytes]
) -> bytes:
    """Everything after the last row group.

    Args:
        columns: List columns, in file order.
        layout: The same as Arrow sees them; kept for Arrow's readers, with units and 64-bit list offsets.
        row_groups: Their metadata; one row each.
        notes: Key-value metadata.
    """
    known = {**(layout.metadata or {}), b"ARROW:schema": base64.b64encode(layout.serialize())} | dict(notes)
    by_type = struct((1, STRUCT, struct()))
    metadata = struct(
        (1, I32, integer(2)),
        (2, LIST, listing(STRUCT, _describe_schema(columns))),
        (3, I64, integer(len(row_groups))),
        (4, LIST, listing(STRUCT, row_groups)),
        (5, LIST, listing(STRUCT, [_note(key, value) for key, value in known.items()])),
        (6, BINARY, binary(b"hept")),
        # Without it readers do not trust the limits of a column.
        (7, LIST, listing(STRUCT, [by_type] * (len(SCALARS) + len(columns)))),
    )
    return metadata + len(metadata).to_bytes(4, "little") + MAGIC


@cache
def _describe_schema(columns: tuple[Column, ...]) -> list[bytes]:
    elements = [_element("schema", n_children=len(SCALARS) + len(columns))]
    elements += [_element(column.name, dtype=column.dtype) for column in SCALARS]
    for column in columns:
        elements += [
            _element(column.name, n_children=1, is_list=True),
            _element("list", n_children=1, repetition=_REPEATED),
            _element("element", dtype=column.dtype),
        ]
    return elements


def _element(
    name: str, *, dtype: str = "", n_children: int = 0, repetition: bytes = _REQUIRED, is_list: bool = False
) -> bytes:
    fields: list[Field] = [(1, I32, integer(TYPES[dtype]))] if dtype else []
    fields += [(3, I32, repetition), (4, BINARY, binary(name.encode()))]
    if n_children:
        fields.append((5, I32, integer(n_children)))
    if is_list:
        fields += [(6, I32, _CONVERTED_LIST), (10, STRUCT, struct((3, STRUCT, struct())))]
    return struct(*fields)


def _note(key: bytes, value: bytes) -> bytes:
    return struct((1, BINARY, binary(key)), (2, BINARY, binary(value)))
