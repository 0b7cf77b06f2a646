"""One TrackML CSV file to typed columns: every value present, finite and of its type.

In: the bytes of a CSV; out: numpy arrays by column name. Identifiers are read as 64-bit integers from the
text: TrackML particle ids exceed 2⁵³, and a conversion through float64 would merge particles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from hepdata.errors import InputError, nearest_name
from hepdata.readers.trackml_files import RawFile

Columns = Mapping[str, NDArray[Any]]
# The header of an index column that pandas wrote, and its name after reading.
_INDEX_NAMES = frozenset({"", "Unnamed: 0"})
# Digits, signs, exponents, "nan" and "inf", separators.
_NUMERIC = b'0123456789+-.eEnNaAiIfF, "\r\n'


@dataclass(frozen=True)
class TableFormat:
    """What one kind of file must hold.

    Attributes:
        columns: Name to numpy type, of all columns that a file must have.
        needed: Those that are read; the others are only required to be there.
        bounds: Smallest and largest accepted value of columns that are read, far beyond any detector.
        optional: Columns that some variants have.
        has_others: Whether columns of other names are accepted, with any content (ACTS writes raw bytes).
    """

    name: str
    columns: Mapping[str, str]
    needed: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    optional: frozenset[str] = field(default=frozenset())
    has_others: bool = False


def read_table(file: RawFile, form: TableFormat, *, is_counted: bool = False) -> Columns:
    """Read and check one CSV file.

    Args:
        file: Where it is.
        form: What it must hold.
        is_counted: Whether the caller compares its ids with those of another file. Then the last line may
            have no line end if it has all its values.

    Raises:
        InputError: A column is missing, unknown or doubled, a line is ragged or may be cut, or a value is
            absent, not a number of its type, NaN, infinite or out of bounds.
    """
    content = file.read()
    header = _read_header(file, content)
    _check_header(file, header, form)
    options = csv.ConvertOptions(
        include_columns=list(form.needed),
        column_types={name: pa.type_for_alias(form.columns[name]) for name in form.needed},
    )
    try:
        table = csv.read_csv(
            pa.BufferReader(content), read_options=csv.ReadOptions(use_threads=False), convert_options=options
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(
            file,
            found=_first_line(str(error)),
            expected=f"numbers in {len(header)} columns on every line",
            remedy="repair or download the file again",
        ) from error
    columns = {name: _finite_column(file, table, name) for name in form.needed}
    if not form.has_others:
        _check_characters(file, content)
    if not (is_counted and _is_complete(_last_line(content))):
        check_last_line(file, content)
    for name, (lowest, highest) in form.bounds.items():
        outside = np.flatnonzero((columns[name] < lowest) | (columns[name] > highest))
        if len(outside):
            row = int(outside[0])
            expected = f"a number from {lowest} to {highest}"
            raise _bad_value(file, name, row, f"{columns[name][row]}", expected)
    return columns


def _check_characters(file: RawFile, content: bytes) -> None:
    """Refuse what the parser accepts: hexadecimal numbers, and damage in columns that are not read."""
    strange = content[content.find(b"\n") + 1 :].translate(None, delete=_NUMERIC)
    if strange:
        raise InputError(
            file,
            found=f"the character {strange[:1].decode(errors='replace')!r} among the numbers",
            expected="decimal numbers only",
            remedy="repair or download the file again",
        )


def _last_line(content: bytes) -> bytes:
    return content[content.rfind(b"\n") + 1 :]


def _is_complete(line: bytes) -> bool:
    """Whether a line, which has as many fields as the others, has a value in each."""
    return all(value.strip() for value in line.split(b","))


def check_last_line(where: object, content: bytes) -> None:
    """Refuse a last line without a line end, even one with all its values: a truncated 912 looks like 91.

    Raises:
        InputError: The line may be cut.
    """
    if content and not content.endswith((b"\n", b"\r")):
        last = _last_line(content)[-200:].decode(errors="replace")
        raise InputError(
            where,
            found=f"a last line without a line end ({last!r}): the file may be cut, and its last number too",
            expected="a line end after every line",
            remedy="copy or download the file again; if it is complete, add a line end",
        )


def _read_header(file: RawFile, content: bytes) -> list[str]:
    try:
        first = content[:10_000].split(b"\n", 1)[0].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            file,
            found="bytes that are not text in the first line",
            expected="the names of the columns",
            remedy="check that this is a CSV file (a gzipped one must end in .gz)",
        ) from error
    return [name.strip('"') for name in first.rstrip("\r").split(",")]


def _check_header(file: RawFile, header: list[str], form: TableFormat) -> None:
    missing = [name for name in form.columns if name not in header]
    if missing:
        raise InputError(
            file,
            found=f"no column {missing[0]!r} (columns: {', '.join(header)[:200]})",
            expected=f"a {form.name} file with {', '.join(form.columns)}",
            remedy="check that this is the right file, with its header line",
        )
    doubled = [name for name in form.columns if header.count(name) > 1]
    if doubled:
        raise InputError(
            file,
            found=f"column {doubled[0]!r} twice",
            expected="every column once",
            remedy="remove the surplus column",
        )
    known = {*form.columns, *form.optional, *_INDEX_NAMES}
    extra = [name for name in header if name not in known]
    if extra and not form.has_others:
        raise InputError(
            file,
            found=f"an unknown column {extra[0]!r}",
            expected=f"the columns of a {form.name} file: {', '.join(form.columns)}",
            remedy=f"remove it ({nearest_name(extra[0], list(form.columns))})",
        )


def _finite_column(file: RawFile, table: pa.Table, name: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise _bad_value(file, name, row, "no number (empty or NaN)")
    values = column.to_numpy()
    if values.dtype.kind == "f":
        infinite = np.flatnonzero(~np.isfinite(values))
        if len(infinite):
            raise _bad_value(file, name, int(infinite[0]), str(values[infinite[0]]))
    return np.asarray(values)


def _bad_value(
    file: RawFile, name: str, row: int, found: str, expected: str = "a finite number"
) -> InputError:
    return InputError(
        f"{file}, column {name!r}, line {row + 2}",
        found=found,
        expected=expected,
        remedy="repair the line or leave the event out",
    )


def _first_line(message: str) -> str:
    line = " ".join(message.split("\n", 1)[0].split())
    return line if len(line) <= 200 else line[:200] + "…"
