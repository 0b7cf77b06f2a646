"""A simulated full-size TrackML event: simulating and writing it, against pandas writing the same tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.ratio import Ratio, seconds
from hepdata.simulate.detector import build_detector
from hepdata.simulate.tracking import simulate_event
from hepdata.simulate.trackml_writer import TABLES, write_event

N_HITS = 60_000
LIMIT = 3.0  # seconds


def run() -> list[Ratio]:
    """The ratio, and both times."""
    detector = build_detector()
    event = simulate_event(1000, N_HITS, 0, detector)
    tables = {name: pd.DataFrame(getattr(event, name)) for name in TABLES}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)

        def write_with_pandas() -> None:
            for name, table in tables.items():
                table.to_csv(out / f"pandas-{name}.csv", index=False, float_format="%.6g")

        ours = seconds(lambda: write_event(out, simulate_event(1000, N_HITS, 0, detector)))
        zipped = seconds(lambda: write_event(out, event, compress=True))
        theirs = seconds(write_with_pandas)
    detail = (
        f"{ours:.2f} s (limit {LIMIT:g} s) for {event.n_hits:,} hits and {len(tables['cells']):,} cells; "
        f"pandas only writing {theirs:.2f} s; our gzip writing {zipped:.2f} s"
    )
    return [
        Ratio(
            f"simulate and write a {N_HITS:,}-hit event / pandas only writing it",
            ours / theirs,
            1.0,
            "at most",
            detail,
        )
    ]
