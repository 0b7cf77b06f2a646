"""Raw events to datasets: the functions behind `hept-data build` and `hept-data import`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from hepdata.errors import InputError
from hepdata.features.point_steps import PointSteps
from hepdata.loader.dataset import Dataset, open_dataset
from hepdata.pipeline.build import BuildOptions, BuildSummary, build_dataset
from hepdata.pipeline.colliderml_source import ColliderMLSource, open_colliderml
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.pipeline.point_steps_source import PointStepsSource
from hepdata.pipeline.table_source import open_tables
from hepdata.pipeline.tracking_choice import check_truth, choose_pairs, choose_tracking
from hepdata.pipeline.tracking_source import (
    PairChoice,
    PairDefinition,
    TrackingConfig,
    TrackingSource,
    open_tracking,
)
from hepdata.progress import ProgressChoice, listen
from hepdata.readers.colliderml_files import is_colliderml

PathLike = str | os.PathLike[str]


class BuiltDataset(Dataset):
    """A dataset that was just built, opened.

    Attributes:
        summary: What the build did: counts, skipped events, whether it continued an earlier one.
    """

    def __init__(self, summary: BuildSummary) -> None:
        opened = open_dataset(summary.out)
        super().__init__(opened.root, opened.manifest)
        self.summary = summary

    @property
    def branches(self) -> str:
        """Name of the map by which Delphes branches were read; "" for other sources."""
        source = self.manifest.configuration.get("source")
        found = source.get("branches") if isinstance(source, dict) else None
        return str(found.get("name", "")) if isinstance(found, dict) else ""


def build_tracking(
    raw: PathLike,
    out: PathLike,
    *,
    detectors: PathLike | None = None,
    preset: str = "tracking-60k",
    events: str | range | None = None,
    max_events: int | None = None,
    layers: str | None = None,
    noise: bool | None = None,
    min_pt: float | None = None,
    sectors: int | None = None,
    sector_overlap: float | None = None,
    pairs: PairDefinition | None = None,
    negatives: int | None = None,
    radius: float | None = None,
    cell_features: bool = True,
    unlabelled: bool = False,
    define: Sequence[str] = (),
    select: Sequence[str] = (),
    relabel: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[BuildOptions],
) -> BuiltDataset:
    """Build a dataset from TrackML, ACTS or ColliderML events: hits with positions, labels and pairs.

    TrackML and ACTS events have cluster shapes too; ColliderML's have no cells, and their datasets no such
    columns.
    Events without truth give an unlabelled dataset. Stopped at any moment, the same call continues; a build
    that is finished is opened.

    Args:
        raw: Folder or zip of TrackML events or ACTS' CSV files, or folder of ColliderML's Parquet files.
        out: New folder of the dataset.
        detectors: Modules of the detector; by default detectors.csv next to the events.
        preset: "tracking-60k" for whole events, "tracking-6k" for ten overlapping φ sectors. The preset
            provides the defaults of the arguments below.
        events: Only events with these ids: "1000-1099", "1000-", or range(1000, 1100).
        max_events: At most this many events, lowest ids first.
        layers: "pixel", "pixel+strip", or "all" layers as the source numbers them, or a YAML file with a list
            of (volume, layer).
        noise: Whether hits without a particle are kept.
        min_pt: Drop the hits of particles below this pT in GeV; noise is kept.
        sectors: φ sectors that an event is divided into.
        sector_overlap: Factor on the slope of a sector's edges.
        pairs: Definition of the pair lists.
        negatives: Negatives per point.
        radius: Largest distance of neighbours in (η, φ), for published pairs.
        cell_features: Whether cells are read and cluster shapes stored.
        unlabelled: Ignore truth and particles.
        define: New columns such as "dxy [mm] = hypot(x, y)"; see `hepdata.features.expressions`.
        select: Keep the points where all of these hold, such as "abs(eta) < 2.5 and pt > 0.5"; pairs are made
            of the points that are kept.
        relabel: Count `n_hits`, `n_layers_hit` and `is_reconstructable` among the kept points; otherwise they
            keep the values of the whole event.
        progress: See `hepdata.progress.listen`.
        **options: Of every build: split, file_format, events_per_shard, workers, engine, scheduler, on_error,
            overwrite; see `hepdata.pipeline.build.build_dataset`.

    Raises:
        InputError: Unusable events or arguments, or an output folder that exists.
        JobError: No space or memory left, or a worker died; the same call continues.
    """
    config = choose_tracking(
        preset,
        layers=layers,
        noise=noise,
        min_pt=min_pt,
        sectors=sectors,
        sector_overlap=sector_overlap,
        pairs=pairs,
        negatives=negatives,
        radius=radius,
        cell_features=cell_features,
    )
    source = open_raw_events(
        Path(raw),
        config,
        EventRange.parse(events, max_events),
        None if detectors is None else Path(detectors),
        ignore_truth=unlabelled,
    )
    check_truth(source.config, pairs, noise, min_pt)
    steps = PointSteps.choose(source.schema, _listed(define), _listed(select), relabel=relabel)
    with listen(progress) as listener:
        return BuiltDataset(build_dataset(_add_steps(source, steps), out, progress=listener, **options))


def open_raw_events(
    raw: Path,
    config: TrackingConfig,
    events: EventRange,
    detectors: Path | None,
    *,
    ignore_truth: bool,
) -> TrackingSource | ColliderMLSource:
    """The events of TrackML's or ColliderML's files, whichever they are.

    Raises:
        InputError: Unusable files, or a detectors file where none is needed.
    """
    if not is_colliderml(raw):
        return open_tracking(raw, config, detectors=detectors, events=events, ignore_truth=ignore_truth)
    if detectors is not None:
        raise InputError(
            "`detectors`",
            found=f"{detectors} with ColliderML's Parquet files",
            expected="a detectors file with TrackML or ACTS events only",
            remedy="leave it out: ColliderML's files have no cells, which alone need the modules",
        )
    return open_colliderml(raw, config, events=events, ignore_truth=ignore_truth)


def _add_steps(
    source: TrackingSource | ColliderMLSource, steps: PointSteps
) -> TrackingSource | ColliderMLSource | PointStepsSource:
    """The source with these steps before its pairs are made."""
    if not steps:
        return source
    pairs = source.config.pairs
    unpaired = replace(source.config, pairs=replace(pairs, definition="none"))
    return PointStepsSource(replace(source, config=unpaired), steps, pairs)


def _listed(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def build_pileup(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    preset: str = "pileup-10k",
    branches: str | None = None,
    events: str | range | None = None,
    max_events: int | None = None,
    max_eta: float | None = None,
    scored_pt: float | None = None,
    unlabelled: bool = False,
    define: Sequence[str] = (),
    select: Sequence[str] = (),
    step_size: int | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[BuildOptions],
) -> BuiltDataset:
    """Build a dataset from Delphes files: particle-flow points with kinematics, class and label.

    Args:
        files: A path, glob, folder or URL, or several.
        out: New folder of the dataset.
        preset: "pileup-10k"; it provides the defaults of the arguments below.
        branches: "pf", "particle-flow-candidate", "eflow", "auto", or the path of a YAML map.
        events: Only these events, counted through all files from 0: "1000-1099", "1000-", or
            range(1000, 1100).
        max_events: At most this many events, in the order of the files.
        max_eta: Largest absolute η of a particle.
        scored_pt: Neutral points above this pT in GeV are scored.
        unlabelled: Build without labels, as needed for a sample without them.
        define: New columns such as "mt = sqrt(energy**2 - pt**2)"; see `hepdata.features.expressions`.
        select: Keep the points where all of these hold, such as "abs(eta) < 2.5 and pt > 0.5".
        step_size: Bytes that a worker reads at a time; changes the memory, not the result.
        progress: See `hepdata.progress.listen`.
        **options: Of every build: split, file_format, events_per_shard, workers, engine, scheduler, on_error,
            overwrite; see `hepdata.pipeline.build.build_dataset`.

    Raises:
        InputError: Unusable files or arguments, or an output folder that exists.
        JobError: No space or memory left, or a worker died; the same call continues.
    """
    config = with_changes(
        preset,
        branches=branches,
        max_eta=max_eta,
        scored_pt=scored_pt,
        is_labelled=not unlabelled,
        step_bytes=step_size,
    )
    inputs = [files] if isinstance(files, str | os.PathLike) else files
    chosen = EventRange.parse(events, max_events)
    with listen(progress) as listener:
        source = PileupSource.open(
            [os.fspath(file) for file in inputs], config, events=chosen, progress=listener
        )
        if options.get("workers") is None:
            options["workers"] = source.choose_workers()
        steps = PointSteps.choose(source.schema, _listed(define), _listed(select))
        changed = PointStepsSource(source, steps) if steps else source
        return BuiltDataset(build_dataset(changed, out, progress=listener, **options))


def build_table(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    schema: PathLike,
    events: str | range | None = None,
    max_events: int | None = None,
    pairs: PairDefinition | None = None,
    negatives: int | None = None,
    radius: float | None = None,
    unlabelled: bool = False,
    define: Sequence[str] = (),
    select: Sequence[str] = (),
    progress: ProgressChoice = None,
    **options: Unpack[BuildOptions],
) -> BuiltDataset:
    """Build a dataset from any table of points: Parquet, CSV, ROOT or HDF5.

    A row is a point, with a column that numbers the events; or, in Parquet and ROOT, an event, whose points
    are lists. Rows of an event follow one another. Memory holds one row group of Parquet, or as much of the
    others.

    Args:
        files: Paths or globs, all of one format.
        out: New folder of the dataset.
        schema: YAML file that names task, event number, columns, coordinates, features and target.
        events: Only events with these ids: "1000-1099", "1000-", or range(1000, 1100).
        max_events: At most this many events, lowest ids first.
        pairs: Definition of the pair lists, for a target with the objective "pairs".
        negatives: Negatives per point.
        radius: Largest distance of neighbours in the first two coordinates, for published pairs.
        unlabelled: Build without the columns that are labels, as for events to be predicted.
        define: New columns such as "dxy [mm] = hypot(x, y)"; see `hepdata.features.expressions`.
        select: Keep the points where all of these hold; pairs are made of the points that are kept.
        progress: See `hepdata.progress.listen`.
        **options: Of every build: split, file_format, events_per_shard, workers, engine, scheduler, on_error,
            overwrite; see `hepdata.pipeline.build.build_dataset`.

    Raises:
        InputError: Unusable files, schema or arguments, or an output folder that exists.
        JobError: No space or memory left, or a worker died; the same call continues.
    """
    inputs = [files] if isinstance(files, str | os.PathLike) else files
    source = open_tables(
        [os.fspath(file) for file in inputs],
        Path(schema),
        is_labelled=not unlabelled,
        events=EventRange.parse(events, max_events),
    )
    target = source.schema.target
    has_pairs = target is not None and target.objective == "pairs" and not unlabelled
    if pairs not in (None, "none") and not has_pairs:
        raise InputError(
            "`pairs`",
            found=f"{pairs!r} for a table without labels" if unlabelled else f"{pairs!r}",
            expected="labels of a target with the objective 'pairs' in the schema",
            remedy="leave it out",
        )
    choice = choose_pairs(PairChoice("paper" if has_pairs else "none"), pairs, negatives, radius)
    steps = PointSteps.choose(source.schema, _listed(define), _listed(select))
    with listen(progress) as listener:
        return BuiltDataset(
            build_dataset(PointStepsSource(source, steps, choice), out, progress=listener, **options)
        )


def import_pyg(
    folder: PathLike,
    out: PathLike,
    *,
    trust: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[BuildOptions],
) -> BuiltDataset:
    """Turn a folder of torch_geometric `.pt` point clouds, as published for HEPT, into a dataset.

    Args:
        folder: The files.
        out: New folder of the dataset.
        trust: Read pickles with other objects than tensors; such a file can run any program.
        progress: See `hepdata.progress.listen`.
        **options: Of every build: split, file_format, events_per_shard, workers, engine, scheduler, on_error,
            overwrite; see `hepdata.pipeline.build.build_dataset`.

    Raises:
        InputError: Unusable files, or an output folder that exists.
        JobError: No space or memory left, or a worker died; the same call continues.
    """
    # Imported here: torch takes seconds.
    from hepdata.pipeline.pyg_source import PygSource

    source = PygSource.open(Path(folder), trust)
    with listen(progress) as listener:
        return BuiltDataset(build_dataset(source, out, progress=listener, **options))
