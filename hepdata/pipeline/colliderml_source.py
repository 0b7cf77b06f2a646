"""ColliderML events as a source of clouds: reader, features and pairs in sequence.

In: a folder of Parquet files, and a configuration; out: an `EventSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.features.colliderml import colliderml_schema, make_clouds
from hepdata.pipeline.event_range import ALL_EVENTS, EventRange
from hepdata.pipeline.event_source import EventRef, read_each
from hepdata.pipeline.tracking_source import TrackingConfig, add_pairs
from hepdata.progress import Progress, Silent, counting
from hepdata.readers.colliderml import read_event
from hepdata.readers.colliderml_files import PartIndex, index_parts
from hepdata.readers.trackml_files import checksum_files
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import SourceFile


@dataclass(frozen=True)
class ColliderMLSource:
    """Some events of a ColliderML sample and what to make of them; see `open_colliderml`.

    Attributes:
        root: Folder of the sample, or the file.
        event_ids: The chosen events.
        parts: Where each part of them is.
        config: What to make.
    """

    root: Path
    event_ids: tuple[int, ...]
    parts: Mapping[str, PartIndex]
    config: TrackingConfig

    @property
    def schema(self) -> Schema:
        """The columns of the clouds: without cluster shapes, with what the files have."""
        has = {name for index in self.parts.values() for name in index.columns}
        return colliderml_schema(self.config.clouds, has | set(self.parts))

    def list_events(self) -> list[EventRef]:
        """All chosen events in event-id order."""
        hits = self.parts["tracker_hits"]
        return [EventRef(event, self._short(hits.find(event)[0])) for event in self.event_ids]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """The files that hold chosen events, with checksums."""
        listener, records = progress or Silent(), []
        paths = sorted({index.find(e)[0] for index in self.parts.values() for e in self._shared(index)})
        with counting(listener, "hashing the input", len(paths), "file"):
            for path in paths:
                ((size, digest),) = checksum_files([path])
                records.append(SourceFile(name=self._short(path), bytes=size, sha256=digest))
                listener.advance()
        return records

    def describe(self) -> dict[str, object]:
        """The configuration as JSON values."""
        return {"reader": "colliderml", **asdict(self.config)}

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """Read, featurise and pair one event after the other."""
        return read_each(events, lambda ref: self.read_raw(ref)())

    def read_raw(self, ref: EventRef) -> Callable[[], list[PointCloud]]:
        """Read one event; the function that is returned makes its clouds."""
        choice = self.config.clouds
        event = read_event(self.parts, ref.event_id, with_truth=choice.is_labelled)
        return lambda: [
            add_pairs(cloud, self.config.pairs) for cloud in make_clouds(event, self.schema, choice)
        ]

    def _shared(self, index: PartIndex) -> list[int]:
        there = set(index.event_id.tolist())
        return [event for event in self.event_ids if event in there]

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if self.root.is_dir() else path.name


def open_colliderml(
    raw: Path,
    config: TrackingConfig,
    *,
    events: EventRange = ALL_EVENTS,
    ignore_truth: bool = False,
) -> ColliderMLSource:
    """Find the events of a sample and check that the configuration fits them.

    A sample without particles gives an unlabelled dataset without pairs.

    Raises:
        InputError: Files that are no ColliderML events, or no event is left.
    """
    # Workers of a cluster have other working directories.
    raw = raw.absolute()
    parts = index_parts(raw)
    chosen = events.choose(parts["tracker_hits"].event_id, raw).tolist()
    clouds = replace(config.clouds, has_cell_features=False)
    has_truth = "particles" in parts and "particle_id" in parts["tracker_hits"].columns
    if ignore_truth or not has_truth:
        parts.pop("particles", None)
        clouds = replace(clouds, is_labelled=False, keep_noise=True, min_pt=None)
        config = replace(config, pairs=replace(config.pairs, definition="none"))
    return ColliderMLSource(raw, tuple(chosen), parts, replace(config, clouds=clouds))
