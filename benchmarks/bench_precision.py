"""Whether half precision trains as well as float32: paired runs of a small training, on a CPU.

A model is trained in float32. From its weights, each seed goes on with a rate that falls to zero, once in
float32 and once in each mixed precision, with the same order and dropout. Begun with random weights, runs
whose rounding differs are as different as two seeds are, and three pairs tell little; from common weights
they end close together. What is compared is AP@k of the moving average of the weights on validation events,
with the 95 % interval of a paired t-test.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import hepdata
import hept
from benchmarks.ratio import Ratio

SEEDS = (1, 2, 3)
EVENTS, HITS, SPLIT = 200, 400, "75/24/1"
# Of the common weights, and of the runs that are compared.
EPOCHS_BEFORE, EPOCHS, RATE = 4, 2, 1e-3
# Of Student's distribution with two degrees of freedom: three pairs.
T_95 = 4.303
GOAL = 0.01


def run() -> list[Ratio]:
    """How much AP@k the mixed precisions lose."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        hepdata.simulate_tracking(folder / "raw", events=EVENTS, hits_per_event=HITS)
        dataset = hepdata.build_tracking(folder / "raw", folder / "data", split=SPLIT)
        common = _train(dataset, folder / "common", {}, EPOCHS_BEFORE)
        reached = {}
        for precision in ("32-true", "bf16-mixed", "16-mixed"):
            settings: dict[str, object] = {"precision": precision, "optimizer.lr": RATE}
            trained = [
                _train(dataset, folder / f"{precision}-{seed}", settings | {"seed": seed}, EPOCHS, common)
                for seed in SEEDS
            ]
            reached[precision] = [float(each.history()["valid_ap@0.9"].iloc[-1]) for each in trained]
    return [_compare(reached["32-true"], reached[each], each) for each in ("bf16-mixed", "16-mixed")]


def _train(
    dataset: hepdata.Dataset,
    out: Path,
    settings: dict[str, object],
    epochs: int,
    init: hept.Run | None = None,
) -> hept.Run:
    settings = settings | {"epochs": epochs, "validate_every": epochs, "ema_decay": 0.98}
    start = None if init is None else init.path
    return hept.fit(
        dataset, out, preset="tracking-demo", settings=settings, init=start, device="cpu", threads=1
    )


def _compare(full: list[float], half: list[float], precision: str) -> Ratio:
    lost = [a - b for a, b in zip(full, half, strict=True)]
    mean, interval = statistics.mean(lost), T_95 * statistics.stdev(lost) / len(lost) ** 0.5
    pairs = ", ".join(f"{a:.4f} → {b:.4f}" for a, b in zip(full, half, strict=True))
    return Ratio(
        f"AP@k lost by {precision}, upper end of the 95 % interval of {len(SEEDS)} paired seeds",
        mean + interval,
        GOAL,
        "at most",
        f"{mean:+.4f} ± {interval:.4f}; {pairs}",
    )
