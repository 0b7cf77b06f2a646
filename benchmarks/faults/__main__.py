"""`python -m benchmarks.faults [--share SHARE] [KIND …]`: try every kind of fault, print one table.

SHARE scales the number of tries: 1 is the whole suite, 0.05 a quick look.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.faults import child, damage, jobs, kills, manifests, runs, tables
from benchmarks.faults.tally import Tally

KINDS = kills.KINDS | damage.KINDS | tables.KINDS | manifests.KINDS | runs.KINDS


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
    begun = time.monotonic()
    try:
        prepared = child.run(lambda: jobs.prepare(folder / "start"))
        if prepared.ending != "done":
            raise SystemExit(prepared.text)
        tallies = print_table(
            t for kind in options.kinds or KINDS for t in KINDS[kind](folder, options.share)
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.strftime('%Y-%m-%d')}, {(time.monotonic() - begun) / 60:.0f} minutes")
    failures = [f"{t.fault}, {t.target}: {failure}" for t in tallies for failure in t.failures]
    print("\n".join(failures))
    return int(bool(failures))


def print_table(tallies: Iterable[Tally]) -> list[Tally]:
    """Print a row as soon as its tries are done, and the sums below."""
    print("| fault | what it was done to | tried | survived | of these refused in one line |")
    print("|---|---|---:|---:|---:|", flush=True)
    done = []
    for tally in tallies:
        done.append(tally)
        print(
            f"| {tally.fault} | {tally.target} | {tally.tried} | {tally.survived} | {tally.refused} |",
            flush=True,
        )
    total = [sum(getattr(tally, name) for tally in done) for name in ("tried", "survived", "refused")]
    print(f"| **all** | | {' | '.join(f'**{number:,}**' for number in total)} |")
    return done


if __name__ == "__main__":
    sys.exit(main())
