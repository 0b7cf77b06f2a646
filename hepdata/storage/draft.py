"""A folder beside an output, in which it is made before it gets its name.

A kill leaves the folder, and the next run for the same output removes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hepdata.storage.atomic import disk_errors
from hepdata.storage.dataset.lock import hold_lock


@contextmanager
def draft_folder(out: Path) -> Iterator[Path]:
    """An empty folder on the disk of `out`, to rename from within the block.

    Raises:
        InputError: Another process makes the same output.
        JobError: The folder of `out` cannot be written.
    """
    draft = out.with_name(f".{out.name}.hept-draft")
    with hold_lock(out):
        with disk_errors(out):
            if draft.exists():
                shutil.rmtree(draft)
            draft.mkdir()
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
