"""Scalars for TensorBoard, written by the process itself.

`tensorboardX.SummaryWriter` writes in a thread behind a queue: on a full disk the thread dies with a
traceback of its own, and training waits for it without end.
"""

from __future__ import annotations

import time
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar

from hepdata.storage.atomic import disk_errors

# Seconds until new values are visible in TensorBoard.
FLUSH_SECONDS = 120


class ScalarFile:
    """A new file of scalars in a folder.

    Raises:
        JobError: A file cannot be written; any method may raise it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(folder / "events"))
        self._flushed = time.monotonic()

    def add(self, name: str, value: float, step: int) -> None:
        """Add a value."""
        with disk_errors(self._folder):
            self._writer.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        if time.monotonic() > self._flushed + FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all values to disk, where TensorBoard reads them."""
        self._flushed = time.monotonic()
        with disk_errors(self._folder):
            self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        with disk_errors(self._folder):
            self._writer.close()
