"""The interface between the raw files of a task and the build: what an event source provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.progress import Progress
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import SourceFile


@dataclass(frozen=True)
class EventRef:
    """One event of a source, before it is read.

    Attributes:
        event_id: Event number in the source.
        source: File (or common stem of files) that the event comes from.
    """

    event_id: int
    source: str


class EventSource(Protocol):
    """Raw files of one task together with the configuration that turns them into clouds.

    A source is picklable: it is sent to worker processes and cluster nodes.
    """

    @property
    def schema(self) -> Schema:
        """The columns that the clouds will have."""

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """For each event in order its clouds, or the error that prevents them."""

    def list_events(self) -> list[EventRef]:
        """All events in order of their ids, without reading them."""

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """Every raw file with its size and checksum; `progress` is told if that takes long."""

    def describe(self) -> dict[str, object]:
        """The full configuration as JSON values: the same configuration gives the same clouds."""


def read_each(
    events: Sequence[EventRef], read: Callable[[EventRef], list[PointCloud]]
) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
    """The clouds of one event after the other, or the error that prevents them."""
    for ref in events:
        try:
            yield ref, read(ref)
        except HeptError as error:
            yield ref, error
