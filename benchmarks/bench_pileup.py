"""Pileup: clouds from a Delphes file against uproot's bare reading of the same leaves; memory over length."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import uproot

from benchmarks.ratio import Ratio, seconds
from hepdata.pipeline.pileup import PileupConfig, PileupSource
from hepdata.pipeline.run import build_dataset
from hepdata.readers.delphes_events import list_leaves
from hepdata.simulate.pileup_file import write_pileup

STEP_BYTES = 8_000_000
# VmHWM and not getrusage: the latter keeps the peak of the process that started this one.
_BUILD = """
import re, sys
from pathlib import Path
from hepdata.pipeline.pileup import PileupConfig, PileupSource
from hepdata.pipeline.run import build_dataset
source = PileupSource.open([sys.argv[1]], PileupConfig(step_bytes=int(sys.argv[3])))
build_dataset(source, Path(sys.argv[2]))
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def run() -> list[Ratio]:
    """Time 100 events of about 10,000 particles; build 30 and 300 of them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return [*measure_speed(place), measure_memory(place)]


def measure_speed(place: Path) -> list[Ratio]:
    """Every event as a finished cloud, then as a dataset; files in the system's cache.

    All sides are one process. Bare reading is uproot as it comes, one thread; ours reads a table ahead in a
    second thread, and a third waits for the disk. On a machine with one free core nothing overlaps.
    """
    file = str(write_pileup(place / "speed.root", events=100, pileup=50, seed=1).path)
    source = PileupSource.open([file], PileupConfig())
    leaves = list_leaves(source.branches, labelled=True)

    def read_bare() -> None:
        with uproot.open({file: "Delphes"}) as tree:
            for _ in tree.iterate(filter_name=leaves, step_size="64 MB"):
                pass

    def read_clouds() -> None:
        # A file that has changed is opened and read anew: nothing is left from the run before.
        Path(file).touch()
        for _ in source.read_clouds(source.list_events()):
            pass

    def build() -> None:
        Path(file).touch()
        build_dataset(source, Path(tempfile.mkdtemp(dir=place)) / "built")

    # In turn, and the best of each: on a busy machine all sides wait for the same neighbours.
    sides = (read_bare, read_clouds, build)
    times = [[seconds(side, repeats=1, warm_up=False) for side in sides] for _ in range(6)]
    bare, clouds, whole = (min(side) for side in zip(*times, strict=True))
    return [
        Ratio(
            "pileup clouds / uproot's bare reading, time, 100 × 10k points",
            clouds / bare,
            1.5,
            "at most",
            f"{100 / bare:.0f} → {100 / clouds:.0f} events/s",
        ),
        # Bare reading writes nothing: making, compressing, hashing and writing a cloud take longer than the
        # reading that they hide. The goal is the one of reading, and not reached.
        Ratio(
            "whole pileup build / uproot's bare reading, time, 100 × 10k points",
            whole / bare,
            1.5,
            "at most",
            f"{100 / bare:.0f} → {100 / whole:.0f} events/s with the dataset written and checksummed",
        ),
    ]


def measure_memory(place: Path) -> Ratio:
    """Peak memory of a whole build in a process of its own."""
    peaks = {}
    for events in (30, 300):
        file = write_pileup(place / f"memory{events}.root", events=events, pileup=50, seed=1).path
        command = [sys.executable, "-c", _BUILD, str(file), str(place / f"built-{events}"), str(STEP_BYTES)]
        peaks[events] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return Ratio(
        "pileup build, peak memory, 300 / 30 events",
        peaks[300] / peaks[30],
        1.1,
        "at most",
        f"{peaks[30]:.0f} → {peaks[300]:.0f} MB at --step-size 8MB",
    )
