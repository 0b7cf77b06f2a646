"""TrackML events as a source of clouds: reader, features and pairs in sequence.

In: a folder or zip of events, and a configuration; out: an `EventSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError
from hepdata.features.hit_clouds import CloudChoice
from hepdata.features.plane import place_points
from hepdata.features.sectors import Sectors
from hepdata.features.tracking import make_clouds, trackml_schema
from hepdata.pipeline.event_range import ALL_EVENTS, EventRange
from hepdata.pipeline.event_source import EventRef, read_each
from hepdata.progress import Progress, Silent
from hepdata.readers.acts import read_acts_event
from hepdata.readers.acts_detector import is_digitization, read_acts_detector
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_detector import Detector, read_detector
from hepdata.readers.trackml_files import (
    EventFiles,
    RawFile,
    checksum_files,
    find_detectors,
    find_events,
    find_json,
)
from hepdata.schema import TRACKING, Schema
from hepdata.storage.dataset.manifest import SourceFile

PairDefinition = Literal["paper", "published", "none"]


@dataclass(frozen=True)
class PairChoice:
    """Which pairs are stored.

    Attributes:
        definition: "paper", "published" (what the authors' files hold) or "none".
        n_negatives: Negatives of a point ("paper"), most neighbours of a point ("published").
        radius: Largest distance of a neighbour in (η, φ); "published" only.
    """

    definition: PairDefinition = "paper"
    n_negatives: int = 256
    radius: float = 1.0


@dataclass(frozen=True)
class TrackingConfig:
    """Everything that decides what a tracking dataset holds.

    Attributes:
        clouds: Hits, features, labels and sectors.
        pairs: Pair lists.
    """

    clouds: CloudChoice = field(default_factory=CloudChoice)
    pairs: PairChoice = field(default_factory=PairChoice)


TRACKING_PRESETS: dict[str, TrackingConfig] = {
    "tracking-60k": TrackingConfig(),
    "tracking-6k": TrackingConfig(clouds=CloudChoice(sectors=Sectors(n_sectors=10, edge="published"))),
}


@dataclass(frozen=True)
class TrackingSource:
    """Some events of a TrackML sample and what to make of them; see `open_tracking`.

    Attributes:
        root: Folder or zip of the sample.
        events: The chosen events and their files.
        detectors: The detectors file, where one is needed.
        digitization: The sizes of its cells, which ACTS has in a file of their own.
        detector: Its modules, read once for all workers.
        config: What to make.
    """

    root: Path
    events: tuple[EventFiles, ...]
    detectors: RawFile | None
    digitization: RawFile | None
    detector: Detector | None = field(repr=False)
    config: TrackingConfig

    @property
    def schema(self) -> Schema:
        """The columns of the clouds."""
        return trackml_schema(self.config.clouds)

    def list_events(self) -> list[EventRef]:
        """All chosen events in event-id order."""
        return [EventRef(event.event_id, event.stem) for event in self.events]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """The files that are read, with checksums; a zip counts as one file.

        `progress` is told of files whose last line has no line end.
        """
        files = [
            event.parts[part]
            for event in self.events
            for part in _parts_used(event, self.config.clouds)
            if part in event.parts
        ]
        files += [file for file in (self.detectors, self.digitization) if file is not None]
        paths = list(dict.fromkeys(file.container or Path(file.name) for file in files))
        _announce_open_ends(files, progress or Silent())
        return [
            SourceFile(name=_short_name(path, self.root), bytes=size, sha256=digest)
            for path, (size, digest) in zip(paths, checksum_files(paths), strict=True)
        ]

    def describe(self) -> dict[str, object]:
        """The configuration as JSON values."""
        return asdict(self.config)

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """Read, featurise and pair one event after the other."""
        return read_each(events, lambda ref: self.read_raw(ref)())

    def read_raw(self, ref: EventRef) -> Callable[[], list[PointCloud]]:
        """Read one event; the function that is returned makes its clouds."""
        files, choice = next(e for e in self.events if e.event_id == ref.event_id), self.config.clouds
        read = read_acts_event if files.is_acts else read_event
        event = read(files, with_cells=choice.has_cell_features, with_truth=choice.is_labelled)
        return lambda: [
            add_pairs(cloud, self.config.pairs) for cloud in make_clouds(event, self.detector, choice)
        ]


def _announce_open_ends(files: Sequence[RawFile], listener: Progress) -> None:
    found = [file for file in files if file.name.endswith(".csv") and not file.has_line_end()]
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        listener.announce(
            f"{Path(found[0].name).name}{more}: no line end after the last line, whose last number may be "
            "cut. An event is used if it has all its values and ids"
        )


def add_pairs(cloud: PointCloud, choice: PairChoice, schema: Schema = TRACKING) -> PointCloud:
    """The same cloud with its pair lists, computed from stored coordinates and labels."""
    if choice.definition == "none" or schema.target is None:
        return cloud
    # Imported here: builds without pairs need no scipy, which takes 0.2 s.
    from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle
    from hepdata.pairs.published_definition import pair_published

    plane = place_points(cloud.columns, schema.coordinates)
    label = cloud.columns[schema.target.label]
    if choice.definition == "published":
        positives, negatives = pair_published(
            plane.x, plane.y, label, choice.n_negatives, choice.radius * plane.scale
        )
    else:
        positives = pair_same_particle(label)
        negatives = pair_nearest_others(
            plane.x, plane.y, label, choice.n_negatives, is_periodic=plane.is_periodic
        )
    return replace(cloud, positives=positives, negatives=negatives)


def open_tracking(
    raw: Path,
    config: TrackingConfig,
    *,
    detectors: Path | None = None,
    events: EventRange = ALL_EVENTS,
    ignore_truth: bool = False,
) -> TrackingSource:
    """Find the events of a sample and check that the configuration fits them.

    A sample without any truth gives an unlabelled dataset without pairs.

    Raises:
        InputError: No event is left, or the detectors file is needed and missing or wrong.
    """
    # Workers of a cluster have other working directories.
    raw = raw.absolute()
    detectors = detectors.absolute() if detectors is not None else None
    found = find_events(raw)
    chosen = set(events.choose([event.event_id for event in found], raw).tolist())
    taken = tuple(event for event in found if event.event_id in chosen)
    if ignore_truth or not any(event.has_truth for event in taken):
        clouds = replace(config.clouds, is_labelled=False, keep_noise=True, min_pt=None)
        config = replace(config, clouds=clouds, pairs=replace(config.pairs, definition="none"))
    file = _choose_detectors(raw, detectors, config.clouds)
    digitization = detector = None
    if file is not None and taken[0].is_acts:
        digitization = _find_digitization(raw) if config.clouds.has_cell_features else None
        detector = read_acts_detector(file, digitization)
    elif file is not None:
        detector = read_detector(file)
    return TrackingSource(raw, taken, file, digitization, detector, config)


def _find_digitization(raw: Path) -> RawFile:
    found = [file for file in find_json(raw) if is_digitization(file.read())]
    if len(found) != 1:
        raise InputError(
            raw,
            found=f"{len(found)} digitization configurations of ACTS",
            expected="one JSON file next to the events: it has the sizes of the cells",
            remedy="copy it there, or give `cell_features=False`",
        )
    return found[0]


def _choose_detectors(raw: Path, detectors: Path | None, choice: CloudChoice) -> RawFile | None:
    if not choice.has_cell_features and choice.layers != "all" and detectors is None:
        return None
    if detectors is None or detectors.suffix == ".zip":
        file = find_detectors(detectors or raw)
    else:
        file = RawFile(None, str(detectors))
    if file is None:
        raise InputError(
            detectors or raw,
            found="no detectors.csv, or more than one",
            expected="the detectors file of these events, for pitches, thicknesses and rotations",
            remedy="give it as `detectors`, or give `cell_features=False`",
        )
    return file


def _parts_used(event: EventFiles, choice: CloudChoice) -> tuple[str, ...]:
    hits = "measurements" if event.is_acts else "hits"
    cells = ("cells",) if choice.has_cell_features else ()
    truth = ("measurement-simhit-map", "hits") if event.is_acts else ("truth",)
    return (hits, *cells, *(("particles", *truth) if choice.is_labelled else ()))


def _short_name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if root.is_dir() and path.is_relative_to(root) else path.name
