"""`python -m benchmarks.faults [--share SHARE] [KIND …]`: try every kind of fault, print one table.

SHARE scales the number of tries: 1 is the whole suite, 0.05 a quick look.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.faults import child, damage, jobs, kills, manifests, runs
from benchmarks.faults.tally import Tally

KINDS = kills.KINDS | damage.KINDS | manifests.KINDS | runs.KINDS


def main() -> int:
    """Run the chosen kinds; 1 where anything did not survive."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    child.preload()
    folder = Path(tempfile.mkdtemp(prefix="hept-faults-"))
    tallies: list[Tally] = []
    begun = time.monotonic()
    try:
        prepared = child.run(lambda: jobs.prepare(folder / "start"))
        if prepared.ending != "done":
            raise SystemExit(prepared.text)
        for kind in options.kinds or KINDS:
            kind_begun = time.monotonic()
            new = KINDS[kind](folder, options.share)
            tallies += new
            n_tried, seconds = sum(tally.tried for tally in new), time.monotonic() - kind_begun
            print(f"… {kind}: {n_tried} in {seconds:.0f} s", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{time.strftime('%Y-%m-%d')}, {(time.monotonic() - begun) / 60:.0f} minutes\n")
    return report(tallies)


def report(tallies: list[Tally]) -> int:
    """Print the table and what went wrong."""
    rows = [[tally.fault, tally.target, tally.tried, tally.survived, tally.refused] for tally in tallies]
    total = [sum(getattr(tally, name) for tally in tallies) for name in ("tried", "survived", "refused")]
    print("| fault | what it was done to | tried | survived | of these refused in one line |")
    print("|---|---|---:|---:|---:|")
    for row in (*rows, ["**all**", "", *total]):
        print(f"| {' | '.join(map(str, row))} |")
    for tally in tallies:
        for failure in tally.failures:
            print(f"{tally.fault}, {tally.target}: {failure}")
    return int(total[0] != total[1])


if __name__ == "__main__":
    sys.exit(main())
