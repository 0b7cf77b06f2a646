"""The states from which a run can be resumed: `resume.pt` is the newest, `resume-1.pt` the one before it.

A file is one line with a checksum, then what `torch.save` writes.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import torch

from hepdata.errors import InputError
from hepdata.storage.atomic import disk_errors, write_atomically
from hept.runs.folder import RESUME, find_states

_HEADER = b"hept state, sha256 "
_HEADER_BYTES = len(_HEADER) + 64 + 1
# torch.save writes zip files. States of earlier versions are nothing else.
_ZIP = b"PK"


def save_state(folder: Path, state: dict[str, object], *, keep_last: int) -> None:
    """Write the newest state and keep the `keep_last` - 1 before it; a kill at any moment leaves one.

    Raises:
        JobError: No space, or no permission.
    """
    newest = folder / RESUME
    # If the newest is missing, an earlier save was killed here: rotating again would lose an old state.
    if newest.exists():
        for age in range(keep_last - 1, 0, -1):
            younger = folder / name_state(age - 1)
            if younger.exists():
                with disk_errors(younger):
                    younger.replace(folder / name_state(age))
    write_state(newest, state)


def name_state(age: int) -> str:
    """File of the state that is `age` states older than the newest."""
    return f"resume-{age}.pt" if age else RESUME


def write_state(path: Path, state: dict[str, object]) -> None:
    """Write one state atomically.

    Raises:
        JobError: No space, or no permission.
    """
    payload = io.BytesIO()
    torch.save(state, payload)
    digest = hashlib.sha256(payload.getbuffer()).hexdigest()
    with write_atomically(path) as file:
        file.write(_HEADER + digest.encode() + b"\n")
        file.write(payload.getbuffer())


def load_newest(folder: Path) -> tuple[dict[str, object], Path, list[InputError]]:
    """The newest undamaged state, its file, and the errors of newer ones.

    Raises:
        InputError: There is no state, or all are damaged.
    """
    errors: list[InputError] = []
    paths = find_states(folder)
    for path in paths:
        try:
            return read_state(path), path, errors
        except InputError as error:
            errors.append(error)
    raise InputError(
        folder,
        found=f"damaged states only ({', '.join(path.name for path in paths)}: {errors[0].found})",
        expected="one that is whole",
        remedy="restore the folder from a backup, or begin the run again in another folder",
    )


def read_state(path: Path) -> dict[str, object]:
    """Read what `write_state` wrote.

    Raises:
        InputError: A damaged file.
    """
    try:
        content = path.read_bytes()
        if content.startswith(_HEADER):
            payload = content[_HEADER_BYTES:]
            if content[len(_HEADER) : _HEADER_BYTES] != hashlib.sha256(payload).hexdigest().encode() + b"\n":
                raise ValueError("its checksum does not match")
        elif content.startswith(_ZIP):
            payload = content
        else:
            raise ValueError("not a file of this program")
        return dict(torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True))
    except Exception as error:
        # The unpickler of a damaged file without checksum can raise anything.
        raise InputError(
            path,
            found=f"a damaged state ({' '.join(str(error).split())[:200]})",
            expected="the state of a run",
            remedy="resume the run from an older state",
        ) from error
