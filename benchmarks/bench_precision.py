"""Whether half precision trains as well as float32: paired runs of a small training, on a CPU.

Each seed draws the weights, order and dropout of one run in float32 and one in each mixed precision. Rounding
errors alone make two runs as different as two seeds do, so what is compared is little affected by chance: the
AP@k of the moving average of the weights, at the end, on twice as many events as trained on. The interval is
that of a paired t-test at 95 %.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import hepdata
import hept
from benchmarks.ratio import Ratio

SEEDS = (1, 2, 3)
EVENTS, HITS, EPOCHS, SPLIT = 96, 400, 20, "33/66/1"
# Of Student's distribution with two degrees of freedom: three pairs.
T_95 = 4.303
GOAL = 0.01


def run() -> list[Ratio]:
    """How much AP@k the mixed precisions lose."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        hepdata.simulate_tracking(folder / "raw", events=EVENTS, hits_per_event=HITS)
        dataset = hepdata.build_tracking(folder / "raw", folder / "data", split=SPLIT)
        reached = {
            precision: [_train(dataset, folder / f"{precision}-{seed}", precision, seed) for seed in SEEDS]
            for precision in ("32-true", "bf16-mixed", "16-mixed")
        }
    return [_compare(reached["32-true"], reached[each], each) for each in ("bf16-mixed", "16-mixed")]


def _train(dataset: hepdata.Dataset, out: Path, precision: str, seed: int) -> float:
    settings: dict[str, object] = {"precision": precision, "seed": seed, "epochs": EPOCHS}
    settings |= {"validate_every": EPOCHS, "ema_decay": 0.98}
    trained = hept.fit(dataset, out, preset="tracking-demo", settings=settings, device="cpu", threads=1)
    return float(trained.history()["valid_ap@0.9"].iloc[-1])


def _compare(full: list[float], half: list[float], precision: str) -> Ratio:
    lost = [a - b for a, b in zip(full, half, strict=True)]
    mean, interval = statistics.mean(lost), T_95 * statistics.stdev(lost) / len(lost) ** 0.5
    pairs = ", ".join(f"{a:.3f} → {b:.3f}" for a, b in zip(full, half, strict=True))
    return Ratio(
        f"AP@k lost by {precision}, {len(SEEDS)} paired seeds",
        mean,
        GOAL,
        "at most",
        f"{mean:+.4f} ± {interval:.4f} (95 %); {pairs}",
    )
