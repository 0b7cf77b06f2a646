"""The tables of a run, one row per epoch or step; they are for people, and training never reads them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically


def append_row(path: Path, row: Mapping[str, object]) -> None:
    """Add a row; the first row makes the header.

    Raises:
        JobError: A file cannot be written.
    """
    with disk_errors(path), path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(row))
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow({name: _text(value) for name, value in row.items()})


def read_table(path: Path, key: str) -> list[dict[str, str]]:
    """The undamaged rows; empty if there are none yet.

    Args:
        path: The table.
        key: The column by which rows are counted.

    Raises:
        InputError: The table is damaged as a whole.
    """
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = list(csv.DictReader(file))
    except csv.Error as error:
        raise _damaged(path, str(error)) from error
    # A file with only a header may have been cut by a kill.
    if rows and key not in rows[0]:
        raise _damaged(path, f"no column {key}")
    return [row for row in rows if all(map(_is_number, row.values()))]


def cut_table(path: Path, key: str, last: int) -> None:
    """Drop the rows after number `last`; an unreadable table is renamed.

    Raises:
        JobError: A file cannot be written.
    """
    try:
        rows = [row for row in read_table(path, key) if row[key].isdigit()]
    except InputError:
        with disk_errors(path):
            path.replace(path.with_suffix(".damaged"))
        return
    kept = [row for row in rows if int(row[key]) <= last]
    if not kept:
        # Otherwise rows would be added below a torn header.
        with disk_errors(path):
            path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(kept)
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(
        path,
        found=f"a damaged table ({problem})",
        expected="what training wrote",
        remedy="restore the file from a copy, or remove it; the weights do not depend on it",
    )


def _is_number(value: object) -> bool:
    # csv fills a line that is too short with None, and puts the rest of one that is too long into a list.
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _text(value: object) -> object:
    # repr keeps every digit of a float, so that two runs can be compared to the last one.
    return repr(value) if isinstance(value, float) else value
