"""ColliderML: events and clouds against pyarrow's bare reading of the same columns; memory of the reader."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ratio import Ratio
from benchmarks.turns import time_in_turns
from hepdata.features.hit_clouds import CloudChoice
from hepdata.features.layers import ODD_LAYERS
from hepdata.pipeline.colliderml_source import open_colliderml
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig
from hepdata.readers.colliderml import read_event

# The size of events with 200 pileup collisions; released files have 1,000 of them.
HITS = 100_000
PARTICLES = 8_000
EVENTS = 40
PER_GROUP = 10
ROUNDS = 5
# VmHWM, because getrusage also includes the peak of the parent process.
_READ = """
import re, sys
from pathlib import Path
from hepdata.pipeline.colliderml_source import open_colliderml
from hepdata.pipeline.tracking_source import TrackingConfig
from hepdata.readers.colliderml import read_event
source = open_colliderml(Path(sys.argv[1]), TrackingConfig())
for ref in source.list_events():
    read_event(source.parts, ref.event_id, with_truth=True)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def run() -> list[Ratio]:
    """Time the reading of events, then clouds; read files of 160 and of 480 events."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*measure_speed(write_events(folder / "speed", EVENTS, PER_GROUP)), measure_memory(folder)]


def write_events(folder: Path, n_events: int, per_group: int) -> Path:
    """Random events in the types and the layout of the released files, one file per part."""
    for part in ("tracker_hits", "particles"):
        (folder / f"ttbar_pu200_{part}").mkdir(parents=True)
        path = folder / f"ttbar_pu200_{part}" / "train-00000-of-00001.parquet"
        events = [_draw_event(event)[part] for event in range(per_group)]
        with pq.ParquetWriter(path, events[0].schema) as writer:
            for first in range(0, n_events, per_group):
                ids = pa.array(range(first, first + per_group), pa.uint32())
                rows = pa.concat_tables(events).set_column(0, "event_id", ids)
                writer.write_table(rows, row_group_size=per_group)
    return folder


def _draw_event(seed: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(seed)
    layers = np.array(ODD_LAYERS["all"])[random.integers(0, 48, HITS)]
    hits = {name: random.normal(0, 300, HITS).astype(np.float32) for name in ("x", "y", "z", "time")}
    ids = 2**54 + random.permutation(PARTICLES).astype(np.uint64)
    hits |= {"volume_id": layers[:, 0].astype(np.uint8), "layer_id": layers[:, 1].astype(np.uint16)}
    hits |= {"surface_id": random.integers(1, 3000, HITS).astype(np.uint32)}
    hits |= {"particle_id": ids[random.integers(0, PARTICLES, HITS)]}
    particles = {name: random.normal(size=PARTICLES).astype(np.float32) for name in ("px", "py", "pz")}
    particles |= {"particle_id": ids, "vertex_primary": random.integers(1, 200, PARTICLES).astype(np.uint16)}
    number = {"event_id": pa.array([0], pa.uint32())}
    return {
        part: pa.table(number | {name: pa.array([values]) for name, values in columns.items()})
        for part, columns in (("tracker_hits", hits), ("particles", particles))
    }


def measure_speed(folder: Path) -> list[Ratio]:
    """Time in one process and one thread; files are in the system's cache.

    Bare reading decodes the row groups of the same columns and drops them. The reader joins the parts, checks
    every value and sorts particles. Clouds have coordinates, labels and the order of the curve, too.
    """
    source = open_colliderml(folder, TrackingConfig(CloudChoice(layers="all"), PairChoice("none")))

    def read_bare() -> None:
        for index in source.parts.values():
            for path in index.files:
                file = pq.ParquetFile(path)
                for group in range(file.num_row_groups):
                    file.read_row_group(group, columns=["event_id", *index.columns], use_threads=False)

    def read_events() -> None:
        for event in source.event_ids:
            read_event(source.parts, event, with_truth=True)

    def make_clouds() -> None:
        for _ in source.read_clouds(source.list_events()):
            pass

    sides = {"bare": read_bare, "read": read_events, "clouds": make_clouds}
    timings = time_in_turns(sides, rounds=ROUNDS)
    # Processor time, which other work on the machine changes least: nothing here waits.
    bare, read, clouds = (timings[side].cpu / EVENTS * 1e3 for side in sides)
    return [
        Ratio(
            f"ColliderML events / pyarrow's bare reading, processor time, {HITS:,} hits",
            read / bare,
            2.0,
            "at most",
            f"{bare:.1f} → {read:.1f} ms an event",
        ),
        Ratio(
            f"ColliderML clouds without pairs / pyarrow's bare reading, processor time, {HITS:,} hits",
            clouds / bare,
            2.0,
            "at most",
            f"{bare:.1f} → {clouds:.1f} ms an event",
        ),
    ]


def measure_memory(folder: Path) -> Ratio:
    """Peak memory of reading files of different sizes with equal row groups.

    Both have many row groups: the peak is reached only after a few of them.
    """
    peaks = {}
    for n_events in (160, 480):
        raw = write_events(folder / f"memory{n_events}", n_events, PER_GROUP)
        command = [sys.executable, "-c", _READ, str(raw)]
        peaks[n_events] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return Ratio(
        f"ColliderML reader, peak memory, files of 480 / 160 events, row groups of {PER_GROUP}",
        peaks[480] / peaks[160],
        1.1,
        "at most",
        f"{peaks[160]:.0f} → {peaks[480]:.0f} MB",
    )
