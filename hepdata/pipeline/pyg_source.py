"""torch_geometric files as a source of events; importing this imports torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.features.pyg_clouds import choose_schema, make_cloud
from hepdata.pipeline.event_source import EventRef, read_each
from hepdata.progress import Progress
from hepdata.readers.pyg_files import StoredCloud, list_clouds, read_tensors
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import SourceFile


@dataclass(frozen=True)
class PygSource:
    """A folder of torch_geometric files, as an `EventSource`."""

    clouds: tuple[StoredCloud, ...]
    schema: Schema
    trust: bool

    @classmethod
    def open(cls, folder: Path, trust: bool) -> PygSource:
        """List the clouds, and take the columns from the first."""
        clouds = tuple(list_clouds(folder, trust=trust))
        return cls(clouds, choose_schema(read_tensors(clouds[0], trust=trust)), trust)

    @cached_property
    def _by_event(self) -> dict[int, list[StoredCloud]]:
        grouped = groupby(self.clouds, key=lambda cloud: cloud.event_id)
        return {event_id: list(clouds) for event_id, clouds in grouped}

    def list_events(self) -> list[EventRef]:
        """Events in order."""
        return [EventRef(event_id, Path(own[0].path).name) for event_id, own in self._by_event.items()]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:  # noqa: ARG002 (files are small)
        """Every file with its checksum."""
        files = []
        for path in sorted({Path(cloud.path) for cloud in self.clouds}):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            files.append(SourceFile(name=path.name, bytes=path.stat().st_size, sha256=digest))
        return files

    def describe(self) -> dict[str, object]:
        """What decides the clouds."""
        return {"imported": "torch_geometric", "pairs": "as in the files"}

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """The sectors of each event."""
        return read_each(events, lambda ref: [self._read(cloud) for cloud in self._by_event[ref.event_id]])

    def _read(self, cloud: StoredCloud) -> PointCloud:
        tensors = read_tensors(cloud, trust=self.trust)
        where = Path(cloud.path).name
        return make_cloud(tensors, self.schema, event_id=cloud.event_id, sector=cloud.sector, where=where)
