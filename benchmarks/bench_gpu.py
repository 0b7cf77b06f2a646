"""Cost of a forward pass and a training step on a GPU at 60,000 points, counted without a GPU.

Ours is compared with the authors' steps; one dispatched operator is one launch, see `benchmarks.traffic`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.ratio import Ratio
from benchmarks.stand_in import build_stand_in

GOALS = {
    "forward": {"launches": 250, "GB": 6.0, "waits": 0, "peak GB": 0.6},
    "step": {"launches": 900, "GB": 20.0, "waits": 1, "peak GB": 3.0},
}


def count(n_points: int = 60_000) -> dict[str, dict[str, float]]:
    """Launches, GB, waits, peak GB and GFLOP by pass and side."""
    with TemporaryDirectory() as folder:
        library = str(build_stand_in(Path(folder)))
        command = [sys.executable, "-m", "benchmarks.gpu_counts", library, str(n_points)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def run() -> list[Ratio]:
    """Each count against its goal, with that of the literal model in the detail."""
    counted = count()
    return [
        Ratio(
            f"GPU {name}, 60,000 points, {unit}",
            counted[f"{name}, ours"][unit],
            goal,
            "at most",
            f"{counted[f'{name}, ours'][unit]:.4g} / literal {counted[f'{name}, literal'][unit]:.4g}",
        )
        for name, goals in GOALS.items()
        for unit, goal in goals.items()
    ]
