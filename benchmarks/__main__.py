"""`python -m benchmarks [NAME …]`: run every `bench_*.py` (or those named) and print one table.

Each module has `run() -> list[Ratio]` and runs in its own process, so that peak memory is its own.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.ratio import Ratio

HERE = Path(__file__).parent
RESULTS = HERE.parent / "bench-results"


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; return 1 if a goal was missed."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = set(names) - set(known)
    if unknown:
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    ratios = []
    for name in names or known:
        print(f"… {name}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "benchmarks", "--child", name], check=True, cwd=HERE.parent)
        ratios += [Ratio(**entry) for entry in json.loads((RESULTS / f"{name}.json").read_text())]
    table = Table("measured", "ratio", "goal", "", "detail", title="Benchmarks")
    for ratio in ratios:
        mark = "ok" if ratio.is_met else "MISSED"
        table.add_row(ratio.name, f"{ratio.value:.3g}", f"{ratio.sense} {ratio.goal:g}", mark, ratio.detail)
    Console(width=160).print(table)
    return 0 if all(ratio.is_met for ratio in ratios) else 1


def run_child(name: str) -> None:
    """Run one benchmark and write its ratios as JSON."""
    ratios = import_module(f"benchmarks.bench_{name}").run()
    (RESULTS / f"{name}.json").write_text(
        json.dumps([dataclasses.asdict(ratio) for ratio in ratios], indent=2)
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
