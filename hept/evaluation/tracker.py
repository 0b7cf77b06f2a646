"""Raw tracking events to tracks: files of TrackML, ACTS or ColliderML enter, tables of hits and tracks leave.

One event is in memory at a time. For each the time of reading, features, model and reconstruction is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from hepdata.building import open_raw_events
from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.cluster import CLUSTER_FEATURES
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.tracking_choice import choose_tracking
from hepdata.progress import Progress, Silent, counting
from hepdata.schema import TRACKING
from hepdata.storage.atomic import write_atomically
from hept.model.trained import TrainedModel
from hept.tracks.finder import Clustering, find_tracks
from hept.tracks.table import LAYOUT, fit_tracks, name_fits, tabulate_fits

HITS = pa.schema([("event_id", pa.int64()), ("hit_id", pa.int64()), ("track_id", pa.int64())])
SUFFIXES = (".parquet", ".csv")


@dataclass(frozen=True)
class Tracked:
    """What was written.

    Attributes:
        out: Hits with the numbers of their tracks.
        fits: One row a track, with the parameters of its helix.
        n_events: Events.
        n_hits: Hits of the model's layers.
        n_tracks: Tracks.
        seconds: Mean time of an event, by step: read, features, model, reconstruction.
    """

    out: Path
    fits: Path
    n_events: int
    n_hits: int
    n_tracks: int
    seconds: dict[str, float]


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - begun


def find_raw_tracks(
    trained: TrainedModel,
    raw: Path,
    out: Path,
    clustering: Clustering,
    *,
    detectors: Path | None = None,
    layers: str | None = None,
    max_events: int | None = None,
    progress: Progress | None = None,
) -> Tracked:
    """Write the tracks of raw events, with the table of their helices beside it; see `hept.find_raw_tracks`.

    In CSV, as in a TrackML submission, each hit in no track has a track of its own.
    """
    _check(trained, out)
    needs_cells = any(entry.column in CLUSTER_FEATURES for entry in (*trained.features, *trained.coords))
    config = choose_tracking(layers=layers, pairs="none", cell_features=needs_cells)
    source = open_raw_events(raw, config, EventRange.parse(None, max_events), detectors, ignore_truth=True)
    refs, listener, clock = source.list_events(), progress or Silent(), _Clock()
    n_hits = n_tracks = 0
    with (
        counting(listener, "tracking", len(refs), "event"),
        write_atomically(out) as file,
        write_atomically(name_fits(out)) as fits,
        _open_hits(out, file) as hits,
        pq.ParquetWriter(fits, LAYOUT, compression="zstd") as table,
    ):
        for ref in refs:
            with clock("read"):
                make_clouds = source.read_raw(ref)
            with clock("features"):
                (cloud,) = make_clouds()
            label = _find(trained, cloud, clustering, clock)
            hits.write_table(_tabulate(cloud, label, is_complete=out.suffix == ".csv"))
            fitted = fit_tracks(label, cloud.columns, clustering.steps.error)
            if fitted is not None:
                table.write_table(tabulate_fits(cloud.event_id, fitted))
            n_hits, n_tracks = n_hits + len(label), n_tracks + int(label.max(initial=-1)) + 1
            listener.advance(1)
    seconds = {step: total / max(len(refs), 1) for step, total in clock.seconds.items()}
    return Tracked(out, name_fits(out), len(refs), n_hits, n_tracks, seconds)


def _find(
    trained: TrainedModel, cloud: PointCloud, clustering: Clustering, clock: _Clock
) -> NDArray[np.int64]:
    with clock("model"):
        embeddings = trained(cloud).cpu().double().numpy()
    with clock("reconstruction"):
        return find_tracks(embeddings, cloud.columns, clustering)


def _open_hits(out: Path, file: IO[bytes]) -> pq.ParquetWriter | csv.CSVWriter:
    if out.suffix == ".csv":
        return csv.CSVWriter(file, HITS, write_options=csv.WriteOptions(quoting_header="none"))
    return pq.ParquetWriter(file, HITS, compression="zstd")


def _tabulate(cloud: PointCloud, label: NDArray[np.int64], *, is_complete: bool) -> pa.Table:
    """Rows of one event in order of the hits; `is_complete` gives hits in no track one of their own."""
    order = np.argsort(cloud.columns["hit_id"], kind="stable")
    track = label.copy()
    if is_complete:
        lone = np.flatnonzero(label < 0)
        track[lone] = np.arange(len(lone)) + label.max(initial=-1) + 1
    columns = (np.full(len(label), cloud.event_id), cloud.columns["hit_id"][order], track[order])
    return pa.Table.from_arrays([pa.array(c.astype(np.int64)) for c in columns], schema=HITS)


def _check(trained: TrainedModel, out: Path) -> None:
    if trained.task != TRACKING.task or not trained.is_embedding:
        raise InputError(
            trained.source,
            found=f"a model for {trained.task}",
            expected="a model that embeds the hits of raw tracking events",
            remedy="give a tracking model, or a dataset of the model's task",
        )
    if out.suffix not in SUFFIXES:
        raise InputError(
            "`out`",
            found=f"{out.name!r}",
            expected="a file name that ends in .parquet or .csv",
            remedy="give such a name",
        )
