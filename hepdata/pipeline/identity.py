"""What decides the bytes of a dataset, and the checksums of its input, found out before or during a build.

Checksums of a large input take a good part of the time that a build takes; a build that has nothing to
continue need not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.split_rule import ShardPlan, SplitRule
from hepdata.pipeline.staging import fingerprint
from hepdata.progress import Progress, Silent
from hepdata.storage.dataset.manifest import FORMAT_VERSION, FileFormat, SourceFile
from hepdata.storage.dataset.software import list_software


@dataclass(frozen=True)
class Identity:
    """What a build is.

    Attributes:
        configuration: Of the manifest, with the fingerprint.
        sources: Raw files with their checksums.
        fingerprint: Checksum of everything that decides the bytes.
    """

    configuration: dict[str, object]
    sources: list[SourceFile]
    fingerprint: str


def identify(
    source: EventSource,
    rule: SplitRule,
    plans: Sequence[ShardPlan],
    file_format: FileFormat,
    progress: Progress | None,
) -> Identity:
    """Read the input for its checksums, and describe the build."""
    sources = source.list_files(progress)
    configuration: dict[str, object] = {
        "task": source.schema.task,
        "source": source.describe(),
        "splits": rule.describe(),
        "shards": {plan.name: [event.event_id for event in plan.events] for plan in plans},
    }
    decisive = {
        **configuration,
        "schema": asdict(source.schema),
        "sources": [file.model_dump() for file in sources],
        "file_format": file_format,
        "format_version": FORMAT_VERSION,
        "software": list_software(),
    }
    print_of_build = fingerprint(decisive)
    return Identity({**configuration, "fingerprint": print_of_build}, sources, print_of_build)


@contextmanager
def found_aside(
    find: Callable[[Progress], Identity], then: Callable[[Identity], object]
) -> Iterator[Callable[[Progress], Identity]]:
    """Let a thread find the identity while the block runs; where the block fails, it is given up.

    Args:
        find: Finds it, and tells a listener.
        then: What the thread does with it at once.

    Yields:
        What waits for the identity, and shows a listener how far it is.
    """
    hidden = _HiddenProgress()

    def work() -> Identity:
        identity = find(hidden)
        then(identity)
        return identity

    def wait(progress: Progress) -> Identity:
        if not found.done():
            hidden.show(progress)
        return found.result()

    with ThreadPoolExecutor(1, "identity") as thread:
        found: Future[Identity] = thread.submit(work)
        try:
            yield wait
        finally:
            hidden.is_given_up = True


class _GivenUpError(Exception):
    """Nobody waits for the identity any more."""


class _HiddenProgress:
    """Remembers what it hears until there is somebody to show it to."""

    def __init__(self) -> None:
        self.is_given_up = False
        self._lock = threading.Lock()
        self._shown: Progress = Silent()
        self._begun: tuple[str, int, str] | None = None
        self._n_done = 0

    def start(self, description: str, total: int, unit: str, *, done: int = 0) -> None:
        """The work begins."""
        with self._lock:
            self._begun = (description, total, unit)
            self._n_done = done
            self._shown.start(*self._begun, done=done)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """The work goes on, or ends here."""
        if self.is_given_up:
            raise _GivenUpError
        with self._lock:
            self._n_done += steps
            self._shown.advance(steps, note)

    def announce(self, line: str) -> None:
        """Somebody should read this; where nobody listens yet, it is lost."""
        with self._lock:
            self._shown.announce(line)

    def finish(self) -> None:
        """The work has ended."""
        with self._lock:
            self._begun = None
            self._shown.finish()

    def show(self, progress: Progress) -> None:
        """Pass on everything from now on, and first what there was."""
        with self._lock:
            self._shown = progress
            if self._begun is not None:
                progress.start(*self._begun, done=self._n_done)
