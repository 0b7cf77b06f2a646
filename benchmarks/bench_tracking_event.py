"""One full-size event from CSV to Parquet: time relative to its two unavoidable parts, memory, and size."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv
from scipy.spatial import cKDTree

from benchmarks.memory import added_bytes
from benchmarks.ratio import Ratio, seconds
from benchmarks.tracking_events import full_event
from hepdata.cloud import PointCloud
from hepdata.features.tracking import make_clouds
from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle
from hepdata.pipeline.tracking_source import (
    TRACKING_PRESETS,
    PairChoice,
    TrackingSource,
    add_pairs,
    open_tracking,
)
from hepdata.readers.trackml import read_event
from hepdata.storage.parquet.writer import write_shard

# The authors' files, measured for a cloud of 6,850 points: bytes per point for features and labels, bytes per
# point for the stored neighbour graph, bytes per pair (two 64-bit numbers).
POINT_BYTES, GRAPH_BYTES, PAIR_BYTES = 121, 1105, 16


def run() -> list[Ratio]:
    """All ratios of one event."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = open_tracking(full_event(folder), TRACKING_PRESETS["tracking-60k"])
        cloud, _ = build(source, folder)
        ours = seconds(lambda: build(source, folder))
        _, parts = build(source, folder)
        parse = seconds(lambda: parse_files(source))
        search = seconds(lambda: search_neighbors(cloud), repeats=2)
        ratios = [_time_ratio(cloud, ours, parts, parse, search), *_size_ratios(cloud, source, folder)]
        added = added_bytes(partial(prepare_build, str(source.root), name))
    detail = f"{added / 1e6:.0f} MB added to the process for {cloud.n_points:,} points, reading to writing"
    return [*ratios, Ratio("peak memory of one full-size event, GB", added / 1e9, 1.0, "at most", detail)]


def build(source: TrackingSource, folder: Path) -> tuple[PointCloud, dict[str, float]]:
    """Build one event from raw files to Parquet; return the cloud and the seconds of each part."""
    clock = [time.perf_counter()]
    event = read_event(source.events[0], with_cells=True, with_truth=True)
    clock.append(time.perf_counter())
    (cloud,) = make_clouds(event, source.detector, source.config.clouds)
    clock.append(time.perf_counter())
    positives = pair_same_particle(cloud.particle_id)
    negatives = pair_nearest_others(cloud.eta, cloud.phi, cloud.particle_id, 256)
    cloud = replace(cloud, positives=positives, negatives=negatives)
    clock.append(time.perf_counter())
    write_shard(folder / "event.parquet", [cloud], source.schema)
    clock.append(time.perf_counter())
    names = ("read", "features", "pairs", "write")
    return cloud, dict(zip(names, np.diff(clock), strict=True))


def parse_files(source: TrackingSource) -> None:
    """Parse the event's files with pyarrow, including decompression."""
    for file in source.events[0].parts.values():
        content = gzip.decompress(Path(file.name).read_bytes())
        csv.read_csv(pa.BufferReader(content), read_options=csv.ReadOptions(use_threads=False))


def search_neighbors(cloud: PointCloud) -> None:
    """Find as many neighbours with scipy's tree, with the same periodic φ."""
    points: NDArray[np.float64] = cloud.coords[:, :2].astype(np.float64)
    points[:, 1] %= 2 * np.pi
    cKDTree(points, boxsize=[0, 2 * np.pi]).query(points, k=257)


def prepare_build(raw: str, folder: str) -> Callable[[], object]:
    """The build, for the measurement of memory."""
    source = open_tracking(Path(raw), TRACKING_PRESETS["tracking-60k"])
    return lambda: build(source, Path(folder))


def _time_ratio(
    cloud: PointCloud, ours: float, parts: dict[str, float], parse: float, search: float
) -> Ratio:
    breakdown = ", ".join(f"{name} {part:.2f}" for name, part in parts.items())
    return Ratio(
        f"whole event, {cloud.n_points:,} hits / (pyarrow parse + cKDTree query)",
        ours / (parse + search),
        3.0,
        "at most",
        f"{ours:.2f} s ({breakdown}) / ({parse:.2f} + {search:.2f} s)",
    )


def _size_ratios(cloud: PointCloud, source: TrackingSource, folder: Path) -> list[Ratio]:
    published = add_pairs(cloud, PairChoice("published"))
    results = {}
    for name, variant in (("paper", cloud), ("published", published)):
        path = folder / f"{name}.parquet"
        record = write_shard(path, [variant], source.schema)
        group = pq.read_metadata(path).row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        pair_bytes = sum(c.total_compressed_size for c in columns if c.path_in_schema[:4] in ("pos_", "neg_"))
        n_pairs = record.statistics.n_positives + record.statistics.n_negatives
        results[name] = (record.bytes, pair_bytes, n_pairs)
    n_bytes, pair_bytes, n_pairs = results["paper"]
    theirs = cloud.n_points * (POINT_BYTES + GRAPH_BYTES) + results["published"][2] * PAIR_BYTES
    return [
        Ratio(
            "bytes per stored pair",
            pair_bytes / n_pairs,
            1.0,
            "at most",
            f"{pair_bytes / 1e6:.1f} MB for {n_pairs:,} pairs; published definition "
            f"{results['published'][1] / results['published'][2]:.2f}",
        ),
        Ratio(
            "published layout / ours, same pair definition",
            theirs / results["published"][0],
            15.0,
            "at least",
            f"{theirs / 1e6:.0f} MB / {results['published'][0] / 1e6:.1f} MB; "
            f"with the paper's pairs {n_bytes / 1e6:.1f} MB",
        ),
    ]
