"""Pileup: clouds from a Delphes file against uproot's bare reading of the same leaves; memory of builds."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import uproot

from benchmarks.ratio import Ratio, seconds
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.pileup_source import PileupConfig, PileupSource
from hepdata.readers.delphes_events import list_leaves
from hepdata.simulate.pileup_file import write_pileup

# 0.7 GB of input: a small sample, but large enough that starting a second process pays off.
EVENTS = 2000
ROUNDS = 4
STEP_BYTES = 8_000_000
# VmHWM, because getrusage also includes the peak of the parent process.
_BUILD = """
import re, sys
from pathlib import Path
from hepdata.pipeline.pileup_source import PileupConfig, PileupSource
from hepdata.pipeline.build import build_dataset
source = PileupSource.open([sys.argv[1]], PileupConfig(step_bytes=int(sys.argv[3])))
build_dataset(source, Path(sys.argv[2]))
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def run() -> list[Ratio]:
    """Time 2,000 events of about 10,000 particles; build 30 and 300 of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*measure_speed(folder), measure_memory(folder)]


def measure_speed(folder: Path) -> list[Ratio]:
    """Time clouds, then a whole build; files are in the system's cache, all packages are imported.

    Bare reading is uproot with its defaults: one process, one thread. The clouds are made in one process.
    The whole build is what the command line does with its defaults (opening, input and output checksummed,
    every byte flushed to the disk): as many processes as it chooses for the size of the input, their start
    included. The time of a build in one process is printed next to it.
    """
    file = str(write_pileup(folder / "speed.root", events=EVENTS, pileup=50, seed=1).path)
    source = PileupSource.open([file], PileupConfig())
    leaves = list_leaves(source.branches, labelled=True)

    def read_bare() -> None:
        with uproot.open({file: "Delphes"}) as tree:
            for _ in tree.iterate(filter_name=leaves, step_size="64 MB"):
                pass

    def read_clouds() -> None:
        # A changed file is opened and read again, so that nothing is reused from the previous run.
        Path(file).touch()
        for _ in source.read_clouds(source.list_events()):
            pass

    def build(workers: int | None = None) -> None:
        Path(file).touch()
        opened = PileupSource.open([file], PileupConfig())
        build_dataset(opened, folder / "built", workers=workers or opened.choose_workers())

    def build_alone() -> None:
        build(workers=1)

    def timed(side: Callable[[], None]) -> float:
        time = seconds(side, repeats=1, warm_up=False)
        shutil.rmtree(folder / "built", ignore_errors=True)
        return time

    # In turns, and the median of each: all sides see the same load of a busy machine.
    sides = (read_bare, read_clouds, build, build_alone)
    times = [[timed(side) for side in sides] for _ in range(ROUNDS)]
    bare, clouds, whole, alone = (statistics.median(side) for side in zip(*times, strict=True))
    size = f"{EVENTS:,} × 10k points"
    return [
        Ratio(
            f"pileup clouds / uproot's bare reading, time, {size}",
            clouds / bare,
            2.0,
            "at most",
            f"{EVENTS / bare:.0f} → {EVENTS / clouds:.0f} events/s",
        ),
        Ratio(
            f"whole pileup build / uproot's bare reading, time, {size}",
            whole / bare,
            2.5,
            "at most",
            f"{EVENTS / bare:.0f} → {EVENTS / whole:.0f} events/s written and checksummed by"
            f" {source.choose_workers()} processes; {EVENTS / alone:.0f} ({alone / bare:.2f}) by one",
        ),
    ]


def measure_memory(folder: Path) -> Ratio:
    """Peak memory of a whole build in its own process."""
    peaks = {}
    for events in (30, 300):
        file = write_pileup(folder / f"memory{events}.root", events=events, pileup=50, seed=1).path
        command = [sys.executable, "-c", _BUILD, str(file), str(folder / f"built-{events}"), str(STEP_BYTES)]
        peaks[events] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return Ratio(
        "pileup build, peak memory, 300 / 30 events",
        peaks[300] / peaks[30],
        1.1,
        "at most",
        f"{peaks[30]:.0f} → {peaks[300]:.0f} MB at --step-size 8MB",
    )
