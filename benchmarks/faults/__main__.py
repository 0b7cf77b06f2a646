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

from rich.console import Console
from rich.table import Table

from benchmarks.faults import child, damage, jobs, kills
from benchmarks.faults.tally import Tally

KINDS = {**kills.KINDS, **damage.KINDS}


def main() -> int:
    """Run the chosen kinds; 1 where anything did not survive."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    folder = Path(tempfile.mkdtemp(prefix="hept-faults-"))
    tallies: list[Tally] = []
    try:
        prepared = child.run(lambda: jobs.prepare(folder / "start"))
        if prepared.ending != "done":
            raise SystemExit(prepared.text)
        for kind in options.kinds or KINDS:
            begun = time.monotonic()
            new = KINDS[kind](folder, options.share)
            tallies += new
            print(
                f"… {kind}: {sum(t.tried for t in new)} in {time.monotonic() - begun:.0f} s", file=sys.stderr
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(tallies)


def report(tallies: list[Tally]) -> int:
    """Print the table and what went wrong."""
    table = Table("fault", "tried", "survived", "of these refused in one line", title="Faults")
    for tally in tallies:
        table.add_row(tally.name, str(tally.tried), str(tally.survived), str(tally.refused))
    total = [sum(getattr(tally, name) for tally in tallies) for name in ("tried", "survived", "refused")]
    table.add_row("all", *map(str, total), style="bold")
    Console(width=120).print(table)
    for tally in tallies:
        for failure in tally.failures:
            print(f"{tally.name}: {failure}")
    return int(total[0] != total[1])


if __name__ == "__main__":
    sys.exit(main())
