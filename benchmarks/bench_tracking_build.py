"""Whole builds: two workers against one, and memory against the number of events."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ratio import Ratio
from benchmarks.tracking_events import copies_of_full_event
from hepdata.simulate.trackml_writer import simulate_files

N_FULL = 12
COMMAND = [
    sys.executable,
    "-c",
    "import resource, sys\n"
    "sys.argv[0] = 'hept-data'\n"
    "from hept_cli.data import main\n"
    "try:\n"
    "    main()\n"
    "finally:\n"
    "    print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)",
]


def run() -> list[Ratio]:
    """Both ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = copies_of_full_event(folder / "full", N_FULL)
        times = {workers: _build(raw, folder / f"with-{workers}", workers)[0] for workers in (1, 2)}
        small = folder / "small"
        simulate_files(small, n_events=200, hits_per_event=2_000, seed=3)
        peaks = {count: _build(small, folder / f"of-{count}", 1, count)[1] for count in (20, 200)}
    return [
        Ratio(
            f"build of {N_FULL} full-size events, one worker / two",
            times[1] / times[2],
            1.7,
            "at least",
            f"{times[1]:.1f} s / {times[2]:.1f} s, start of the processes included",
        ),
        Ratio(
            "peak memory of a build, 200 events / 20 events",
            peaks[200] / peaks[20],
            1.1,
            "at most",
            f"{peaks[200] / 1e6:.0f} MB / {peaks[20] / 1e6:.0f} MB, 2,000 hits each",
        ),
    ]


def _build(raw: Path, out: Path, workers: int, max_events: int = 10_000) -> tuple[float, int]:
    """Seconds and peak bytes of one build from the command line."""
    options = ["--workers", str(workers), "--max-events", str(max_events)]
    begun = time.perf_counter()
    result = subprocess.run(
        [*COMMAND, "build", "tracking", str(raw), str(out), *options],
        check=True,
        capture_output=True,
        text=True,
    )
    elapsed = time.perf_counter() - begun
    return elapsed, int(result.stdout.rsplit("peak", 1)[1]) * 1024
