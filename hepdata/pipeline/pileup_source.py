"""Delphes files as a source of point clouds for a build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError, find_preset
from hepdata.features.pileup import PileupCuts, make_clouds
from hepdata.pipeline.engine import choose_workers
from hepdata.pipeline.event_range import ALL_EVENTS, EventRange
from hepdata.pipeline.event_source import EventRef
from hepdata.progress import Progress, Silent, counting
from hepdata.readers.delphes import TreeSurvey, survey_tree
from hepdata.readers.delphes_branches import BranchMap, check_map
from hepdata.readers.delphes_events import ParticleTable
from hepdata.readers.delphes_files import checksum, find_files, name_of, size_of
from hepdata.readers.delphes_kinematics import MASS_RULE
from hepdata.readers.delphes_presets import AUTOMATIC, choose_branches
from hepdata.readers.delphes_stream import stream_of
from hepdata.readers.delphes_survey import (
    MOST_EVENTS,
    LabelCounts,
    check_counts,
    check_labelled,
    count_labels,
)
from hepdata.schema import Schema, pileup_schema
from hepdata.storage.dataset.manifest import SourceFile

# Columns that only a labelled sample has.
FROM_LABELS = frozenset({"is_leading", "hard_fraction", "vertex"})
DEFAULT_STEP_BYTES = 64_000_000
_MEGABYTE = 1_000_000
# Particles converted at a time: few enough for the cache of one core, and small events are grouped.
_POINTS_AT_A_TIME = 1 << 16
# Bytes of input above which computing the checksum shows a progress bar.
_LARGE = 256 * _MEGABYTE


@dataclass(frozen=True)
class PileupConfig:
    """What to make of Delphes files.

    Attributes:
        branches: Preset, "auto", or the path of a YAML map.
        cuts: Acceptance and score threshold.
        is_labelled: Whether to store the label; False allows samples without one.
        step_bytes: Uncompressed bytes read at a time; sets the memory, not the result.
    """

    branches: str = AUTOMATIC
    cuts: PileupCuts = field(default_factory=PileupCuts)
    is_labelled: bool = True
    step_bytes: int = DEFAULT_STEP_BYTES


PRESETS: dict[str, PileupConfig] = {"pileup-10k": PileupConfig()}


@dataclass(frozen=True)
class PileupSource:
    """Delphes files with the map that fits them; events are numbered through all files from 0.

    Attributes:
        files: Paths or URLs, in order.
        n_events: Events of each.
        branches: Which leaves are read.
        config: What is made of them.
        first_event: Number of the first event that is taken.
    """

    files: tuple[str, ...]
    n_events: tuple[int, ...]
    branches: BranchMap
    config: PileupConfig
    first_event: int = 0

    @classmethod
    def open(
        cls,
        inputs: Sequence[str],
        config: PileupConfig,
        *,
        events: EventRange = ALL_EVENTS,
        progress: Progress | None = None,
    ) -> PileupSource:
        """Find the files, choose the branches, and check that labels are available.

        Args:
            inputs: Paths, globs, folders or URLs.
            config: What to make of them.
            events: Which events, counted through all files from 0.
            progress: Listener, since a tree of a thousand branches takes a second to open.

        Raises:
            InputError: A file cannot be used, or the sample cannot be labelled.
        """
        _check_config(config)
        files = find_files(inputs)
        surveys = _survey(files, progress or Silent())
        branches = choose_branches(config.branches, surveys[0].contents, surveys[0].classes, files[0])
        for survey in surveys[1:]:
            check_map(branches, survey.contents, survey.location)
        if not sum(survey.n_events for survey in surveys):
            raise InputError(
                files[0], found="no events", expected="at least one", remedy="give files that hold events"
            )
        if config.is_labelled:
            _check_labels(surveys, branches)
        ends = np.cumsum([survey.n_events for survey in surveys])
        chosen = events.choose(np.arange(ends[-1]), "`events`")
        n_kept = np.diff(np.minimum(ends, chosen[-1] + 1), prepend=0)
        used = [(file, int(n)) for file, n in zip(files, n_kept, strict=True) if n]
        return cls(
            tuple(file for file, _ in used), tuple(n for _, n in used), branches, config, int(chosen[0])
        )

    @property
    def schema(self) -> Schema:
        """The pileup columns, without the label where it is not stored."""
        schema = pileup_schema(self.config.cuts.scored_pt, measured=self.branches.measured)
        return schema if self.config.is_labelled else schema.without(FROM_LABELS)

    def list_events(self) -> list[EventRef]:
        """Every event of every file, numbered through."""
        names = np.repeat([name_of(file) for file in self.files], self.n_events)
        return [EventRef(number, str(name)) for number, name in enumerate(names)][self.first_event :]

    def choose_workers(self) -> int:
        """The default number of processes for these files."""
        return choose_workers(self._measure())

    def _measure(self) -> int:
        """Total size in bytes, without files whose server does not report a size."""
        return sum(size_of(file) for file in self._used)

    @property
    def _used(self) -> list[str]:
        """The files that hold events which are taken."""
        ends = np.cumsum(self.n_events)
        return [file for file, end in zip(self.files, ends, strict=True) if end > self.first_event]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """Size and checksum of every file."""
        total = self._measure()
        listener = progress if progress is not None and total >= _LARGE else Silent()
        listener.start("hashing the input", total // _MEGABYTE, "MB")
        records, n_bytes = [], 0

        def advance(n_more: int) -> None:
            nonlocal n_bytes
            n_before, n_bytes = n_bytes, n_bytes + n_more
            listener.advance(n_bytes // _MEGABYTE - n_before // _MEGABYTE)

        try:
            for file in self._used:
                size, digest = checksum(file, advance)
                records.append(SourceFile(name=name_of(file), bytes=size, sha256=digest))
        finally:
            listener.finish()
        return records

    def describe(self) -> dict[str, object]:
        """The configuration, down to the leaves that are read and the rules that were applied."""
        cuts = self.config.cuts
        return {
            "task": "pileup",
            "branches": self.branches.describe(),
            "max_abs_eta": cuts.max_eta,
            "scored_pt_gev": cuts.scored_pt,
            "is_labelled": self.config.is_labelled,
            "mass_rule": MASS_RULE,
        }

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """Stream the events: file by file, a step of entries at a time."""
        bases = np.concatenate([[0], np.cumsum(self.n_events)])
        for number, group in groupby(
            events, key=lambda event: int(np.searchsorted(bases, event.event_id, side="right")) - 1
        ):
            for run in _consecutive(list(group)):
                yield from self._read_run(self.files[number], int(bases[number]), run)

    def _read_run(
        self, file: str, base: int, run: list[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        events = iter(run)
        try:
            stream = stream_of(
                file, self.branches, labelled=self.config.is_labelled, step_bytes=self.config.step_bytes
            )
        except HeptError as error:
            # The file was removed or damaged after the build began.
            yield from ((event, error) for event in events)
            return
        tables = stream.read(run[0].event_id - base, run[-1].event_id - base + 1)
        yield from zip(events, self._make_clouds(tables, base, name_of(file)), strict=True)

    def _make_clouds(
        self, tables: Iterator[ParticleTable | HeptError], base: int, where: str
    ) -> Iterator[list[PointCloud] | HeptError]:
        for table in tables:
            if isinstance(table, HeptError):
                yield table
                continue
            for part in table.divide(_POINTS_AT_A_TIME):
                yield from make_clouds(part, base + part.first, self.config.cuts, where)


def _survey(files: Sequence[str], progress: Progress) -> list[TreeSurvey]:
    surveys = []
    progress = progress if len(files) > 1 else Silent()
    with counting(progress, "opening", len(files), "file"):
        for file in files:
            surveys.append(survey_tree(file))
            progress.advance()
    return surveys


def _check_labels(surveys: Sequence[TreeSurvey], branches: BranchMap) -> None:
    first = surveys[0].location
    check_labelled(branches, first)
    counts = LabelCounts()
    for survey in surveys:
        if not counts.is_settled:
            counts += count_labels(survey.location, branches, survey.contents, MOST_EVENTS)
    where = first if len(surveys) == 1 else f"{first} and {len(surveys) - 1} more"
    check_counts(counts, branches, where)


def _consecutive(events: list[EventRef]) -> Iterator[list[EventRef]]:
    """Runs of events whose numbers follow one another."""
    for _, run in groupby(enumerate(events), key=lambda pair: pair[1].event_id - pair[0]):
        yield [event for _, event in run]


def with_changes(
    preset: str,
    *,
    branches: str | None = None,
    max_eta: float | None = None,
    scored_pt: float | None = None,
    is_labelled: bool = True,
    step_bytes: int | None = None,
) -> PileupConfig:
    """A preset with single settings replaced; None keeps that of the preset.

    Raises:
        InputError: No such preset.
    """
    config = find_preset(PRESETS, preset)
    cuts = PileupCuts(
        config.cuts.max_eta if max_eta is None else max_eta,
        config.cuts.scored_pt if scored_pt is None else scored_pt,
    )
    return replace(
        config,
        branches=branches or config.branches,
        cuts=cuts,
        is_labelled=is_labelled,
        step_bytes=config.step_bytes if step_bytes is None else step_bytes,
    )


def _check_config(config: PileupConfig) -> None:
    for name, value, is_good, expected in (
        ("`max_eta`", config.cuts.max_eta, 0 < config.cuts.max_eta < 100, "above 0 and below 100"),
        ("`scored_pt`", config.cuts.scored_pt, 0 <= config.cuts.scored_pt < 1e4, "0 GeV or more"),
        ("`step_size`", config.step_bytes, config.step_bytes >= 1, "at least 1 byte"),
    ):
        if not is_good:
            raise InputError(name, found=str(value), expected=expected, remedy="give another value")
