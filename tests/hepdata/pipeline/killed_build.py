"""A build that kills itself: `killed_build.py RAW OUT WORKERS WHEN [--overwrite]`.

WHEN is "step:N" (before the N-th time that this process opens, makes, renames or removes something at OUT),
"event:N" (after the N-th event), "wait:N" (print a line after the N-th event and wait for a signal) or
"never"; with "never" the number of steps is printed.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_signal() -> None:
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    while True:
        time.sleep(0.05)


class Counter:
    """Listens to Python's audit events."""

    def __init__(self, prefix: str, last: int) -> None:
        self.prefix, self.last, self.steps = prefix, last, 0

    def hear(self, name: str, arguments: tuple[object, ...]) -> None:
        if name not in STEPS or not str(arguments[0]).startswith(self.prefix):
            return
        self.steps += 1
        if self.steps == self.last:
            die()


class Listener:
    """Counts events."""

    def __init__(self, last: int, act: Callable[[], None]) -> None:
        self.last, self.act = last, act

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        pass

    def advance(self, steps: int = 1, note: str = "") -> None:
        was_before = self.last > 0
        self.last -= steps
        if was_before and self.last <= 0:
            self.act()

    def finish(self) -> None:
        pass


if __name__ == "__main__":
    raw, out, workers, when, *flags = sys.argv[1:]
    kind, _, number = when.partition(":")
    counter = Counter(str(Path(out).parent), int(number) if kind == "step" else 0)
    sys.addaudithook(counter.hear)
    source = open_tracking(Path(raw), TRACKING_PRESETS["tracking-60k"])
    listener = Listener(
        int(number) if kind in ("event", "wait") else -1, wait_for_signal if kind == "wait" else die
    )
    build_dataset(
        source,
        Path(out),
        workers=int(workers),
        events_per_shard=2,
        overwrite="--overwrite" in flags,
        progress=listener,
    )
    sys.stdout.write(f"{counter.steps}\n")
