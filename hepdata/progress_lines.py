"""Progress without a terminal: a line at every tenth of the work, and at least one per minute."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hepdata.progress import format_duration

SECONDS_BETWEEN_LINES = 60.0
# Short work gets a few lines instead of ten.
SECONDS_BETWEEN_TENTHS = 2.0


class ProgressLines:
    """Progress of one task as lines of text; thread-safe.

    Args:
        description: What is done.
        total: How many steps there are.
        unit: What a step is.
        done: Steps completed before the start, which do not count for the speed.
        clock: Returns monotonic time in seconds.
        write: Called with each line.
    """

    def __init__(
        self,
        description: str,
        total: int,
        unit: str,
        done: int,
        *,
        clock: Callable[[], float],
        write: Callable[[str], None],
    ) -> None:
        self._description, self._total, self._unit = description, total, unit
        self._done_before = self._done = done
        self._clock, self._write = clock, write
        self._note = ""
        self._begun = self._last_line = clock()
        self._next_tenth = self._tenth() + 1
        self._lock = threading.Lock()

    def advance(self, steps: int, note: str) -> None:
        """Count steps, and write a line at every tenth of the work."""
        with self._lock:
            self._done += steps
            self._note = note
            is_late = self._clock() - self._last_line >= SECONDS_BETWEEN_TENTHS
            if self._tenth() >= self._next_tenth and (is_late or self._done == self._total):
                self._next_tenth = self._tenth() + 1
                self._write_line()

    def tick(self) -> float:
        """Write a line if the last one is a minute old; returns the seconds until the next is due."""
        with self._lock:
            if self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
                self._write_line()
            return SECONDS_BETWEEN_LINES - (self._clock() - self._last_line)

    def _tenth(self) -> int:
        return 10 * self._done // self._total if self._total else 0

    def _write_line(self) -> None:
        self._last_line = self._clock()
        elapsed = max(self._last_line - self._begun, 1e-9)
        rate = (self._done - self._done_before) / elapsed
        if rate > 0:
            left = format_duration(max(self._total - self._done, 0) / rate)
            speed = f"{rate:.3g} {self._unit}s/s, {left} left"
        else:
            speed = f"{format_duration(elapsed)} so far, no {self._unit} is done yet"
        self._write(f"{self._description}: {self._done}/{self._total}, {speed} {self._note}".rstrip())


class Heartbeat:
    """Calls `tick` periodically from its own thread until stopped, because a step may take several minutes.

    Args:
        tick: Returns the seconds until it is to be called again.
        wait: Sleeps for the given seconds and returns whether to stop; by default until `stop` is called.
    """

    def __init__(self, tick: Callable[[], float], wait: Callable[[float], bool] | None = None) -> None:
        self._tick = tick
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; nothing is written after this returns."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._wait(self._tick()):
            pass
