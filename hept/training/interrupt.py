"""Signals as requests: the current step is finished and saved before the run stops.

Ctrl-C comes from a user; SIGTERM, SIGUSR1 and SIGHUP come from batch systems (Slurm, HTCondor, Kubernetes)
and from terminals that close.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

# Windows has no SIGUSR1 and SIGHUP.
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)
)


class Interrupt:
    """While entered, a signal sets `number`; a second Ctrl-C stops at once.

    Attributes:
        number: Of the signal that was received first; 0 before.
    """

    def __init__(self) -> None:
        self.number = 0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        # Python delivers signals to the main thread alone.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # Ignored signals stay ignored: `nohup` ignores SIGHUP on purpose.
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if number == signal.SIGINT and self.number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = self.number or number
