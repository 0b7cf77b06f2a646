"""Raw events for the tracking benchmarks: the full-size event next to the checkout, else a simulated one."""

from __future__ import annotations

from pathlib import Path

from hepdata.simulate.trackml_writer import simulate_files

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "acts"
FULL_SIZE = 57_000


def full_event(folder: Path) -> Path:
    """A folder with one event of about 57,000 pixel hits, gzipped."""
    return copies_of_full_event(folder, 1)


def copies_of_full_event(folder: Path, n_events: int) -> Path:
    """A folder with the same full-size event under several numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    source, event = SHARED, 1
    if not SHARED.is_dir():
        source, event = folder / "source", 1000
        simulate_files(source, n_events=1, hits_per_event=FULL_SIZE, seed=1, compress=True)
    raw = folder / "raw"
    raw.mkdir()
    (raw / "detectors.csv.gz").symlink_to(source / "detectors.csv.gz")
    for number in range(n_events):
        for part in ("hits", "cells", "particles", "truth"):
            name = f"event{{:09d}}-{part}.csv.gz"
            (raw / name.format(number)).symlink_to(source / name.format(event))
    return raw
