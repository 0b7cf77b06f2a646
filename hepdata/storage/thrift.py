"""Thrift's compact protocol, as far as Parquet's headers and footers need it: values in, bytes out.

A field is (number, kind, content); the functions below make the contents.
"""

from __future__ import annotations

from collections.abc import Sequence

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
Field = tuple[int, int, bytes]


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    # There are hundreds in every cloud, nearly all of them below 2²¹.
    if number < 0x80:
        return number.to_bytes()
    if number < 0x4000:
        return bytes((number & 127 | 128, number >> 7))
    if number < 0x200000:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128)) + varint(
        number >> 21
    )


def integer(number: int) -> bytes:
    """A signed number: I32, I64."""
    return varint(2 * number if number >= 0 else -2 * number - 1)


def binary(content: bytes) -> bytes:
    """Bytes or text: BINARY."""
    return varint(len(content)) + content


def listing(kind: int, items: Sequence[bytes]) -> bytes:
    """Elements of one kind: LIST."""
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return head + b"".join(items)


def struct(*fields: Field) -> bytes:
    """Fields in ascending order of number: STRUCT."""
    return fields_of(fields) + b"\0"


def fields_of(fields: Sequence[Field]) -> bytes:
    """The beginning of a struct; whoever ends it adds a zero."""
    out, after = bytearray(), 0
    for number, kind, content in fields:
        # Parquet leaves no gap of more than 15 field numbers.
        out.append((number - after) << 4 | kind)
        out += content
        after = number
    return bytes(out)
