"""`python -m benchmarks.roofline`: writes docs/roofline.md, the times to expect on GPUs that we do not have.

Counted bytes, operations and launches enter (`gpu_counts`), and the public figures of four GPUs; a table
leaves. Files of `hept-train doctor --json` in docs/doctor/ put measured times beside the estimates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_gpu import count

DOCS = Path(__file__).parents[1] / "docs"
PAGE, MEASURED = DOCS / "roofline.md", DOCS / "doctor"
SIZES = (6_000, 60_000)
# Part of the public peak that a good kernel reaches.
REACHED = 0.75
# Between two launches of small kernels, in seconds.
LAUNCH = 4e-6

Counts = dict[str, dict[str, float]]


@dataclass(frozen=True)
class GPU:
    """Public peak figures.

    Attributes:
        name: As the vendor and torch call it.
        bandwidth: Of its memory, in bytes a second.
        float32: Operations a second in float32, without tensor cores.
        tf32: On tensor cores in TF32, dense; None where it has none.
        float64: Without tensor cores.
    """

    name: str
    bandwidth: float
    float32: float
    tf32: float | None
    float64: float


GPUS = (
    GPU("A100", 1555e9, 19.5e12, 156e12, 9.7e12),
    GPU("H100", 3350e9, 66.9e12, 494.7e12, 33.5e12),
    GPU("RTX 4090", 1008e9, 82.6e12, 82.6e12, 1.29e12),
    GPU("T4", 320e9, 8.1e12, None, 0.25e12),
)


def estimate(gpu: GPU, counted: dict[str, float], *, is_fused: bool) -> tuple[float, str]:
    """Seconds of a pass, and what bounds it.

    Args:
        gpu: Where.
        counted: Its launches, bytes and operations.
        is_fused: Whether its products are three of TF32 on tensor cores, as in our kernels.
    """
    rate = gpu.tf32 / 3 if is_fused and gpu.tf32 is not None else gpu.float32
    work = 1e9 * (counted["GFLOP"] / rate + counted["GFLOP of float64"] / gpu.float64)
    bounds = {
        "memory": 1e9 * counted["GB"] / (REACHED * gpu.bandwidth),
        "arithmetic": work / REACHED,
        "launches": LAUNCH * counted["launches"],
    }
    slowest = max(bounds, key=lambda name: bounds[name])
    return bounds[slowest], slowest


def choose_pass(gpu: GPU, name: str, counts: Counts) -> dict[str, float] | None:
    """Our pass as this GPU would run it; None for what depends on values and cannot be counted."""
    if gpu.tf32 is not None:
        return counts[f"{name}, ours"]
    return counts.get(f"{name}, ours without Triton")


def find_measured(gpu: GPU, n_points: int, name: str, whose: str) -> float | None:
    """Milliseconds of a doctor's file for this GPU, where somebody has sent one."""
    for path in sorted(MEASURED.glob("*.json")):
        verdicts: list[dict[str, Any]] = json.loads(path.read_text())["verdicts"]
        figures = {each["name"]: each["figures"] for each in verdicts}
        if gpu.name in str(figures.get("device", {}).get("GPU", "")):
            return figures.get(f"times, {n_points:,} points", {}).get(f"{name}, {whose}")  # type: ignore[no-any-return]
    return None


def render(counts: dict[int, Counts]) -> str:
    """The page."""
    lines = [HEAD, _tabulate_counts(counts), FORMULA, _tabulate_gpus(), "", "## Estimates", ""]
    lines += [
        "| GPU | points | pass | ours, ms | bounded by | literal, ms | bounded by | ratio | measured, ms |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for gpu in GPUS:
        for n_points, of_size in counts.items():
            lines += [_describe_pass(gpu, n_points, name, of_size) for name in ("forward", "step")]
    return "\n".join([*lines, "", TAIL])


def _describe_pass(gpu: GPU, n_points: int, name: str, counts: Counts) -> str:
    literal, literal_bound = estimate(gpu, counts[f"{name}, literal"], is_fused=False)
    chosen = choose_pass(gpu, name, counts)
    ours, bound, ratio = "–", "–", "–"
    if chosen is not None:
        seconds, bound = estimate(gpu, chosen, is_fused=gpu.tf32 is not None)
        ours, ratio = f"{1e3 * seconds:.1f}", f"{literal / seconds:.1f}"
    pair = [find_measured(gpu, n_points, name, whose) for whose in ("ours", "literal")]
    measured = " / ".join("–" if each is None else f"{each:.1f}" for each in pair)
    cells = [
        gpu.name,
        f"{n_points:,}",
        name,
        ours,
        bound,
        f"{1e3 * literal:.1f}",
        literal_bound,
        ratio,
        measured,
    ]
    return f"| {' | '.join(cells)} |"


def _tabulate_counts(counts: dict[int, Counts]) -> str:
    lines = ["| points | pass | launches | GB | GFLOP | GFLOP of float64 |", "|---|---|---|---|---|---|"]
    for n_points, of_size in counts.items():
        for name, row in of_size.items():
            figures = f"{row['launches']:.0f} | {row['GB']:.2f} | {row['GFLOP']:.1f}"
            lines.append(f"| {n_points:,} | {name} | {figures} | {row['GFLOP of float64']:.1f} |")
    return "\n".join(lines)


def _tabulate_gpus() -> str:
    lines = [
        "| GPU | memory, GB/s | float32, Tflop/s | TF32 tensor, dense | float64 |",
        "|---|---|---|---|---|",
    ]
    for gpu in GPUS:
        tf32 = "–" if gpu.tf32 is None else f"{gpu.tf32 / 1e12:.1f}"
        figures = f"{gpu.bandwidth / 1e9:,.0f} | {gpu.float32 / 1e12:.1f} | {tf32} | {gpu.float64 / 1e12:.2f}"
        lines.append(f"| {gpu.name} | {figures} |")
    return "\n".join(lines)


HEAD = """# Times to expect on a GPU

**Estimates, not measurements**, except in the last column, which stands empty until somebody sends a file of
`hept-train doctor --json` (see [doctor.md](doctor.md)). Written by `python -m benchmarks.roofline`.

"ours" is the published model: four layers, 24 hidden dimensions, 8 heads, blocks of 100, 3 tables, and in a
step InfoNCE over 10 positive and 256 negative pairs a point, gradient clipping and Adam. "literal" is the
authors' procedure, step by step (`hept/paper/literal_model.py`); its step has the mean square of the outputs
in place of a loss, whose sizes depend on the data, so that its true step is slower than this page says.

## Counts

Counted without a GPU: an operator is one launch that reads its inputs and writes its outputs, and our fused
kernels have formulas that tests check (`benchmarks/traffic.py`). What a cache saves is not in it. "without
Triton" is what GPUs before compute capability 8.0 run; its loss depends on values and cannot be counted.
"""

FORMULA = f"""
## Formula

    time = max( bytes / ({REACHED} · bandwidth),
                (operations / rate + operations of float64 / float64 rate) / {REACHED},
                launches · {1e6 * LAUNCH:.0f} µs )

`rate` is that of float32, and for our fused kernels a third of that of TF32 on tensor cores: each product is
three of them, which together are as good as float32. {REACHED} is what a good kernel reaches of the vendor's
peak. The peaks are those of the vendors' data sheets (A100 SXM 40 GB, H100 SXM 80 GB):
"""

TAIL = """\
One time is known to check the formula by: the paper's 57.9 ms for the authors' forward pass at 60,000
points on a Quadro RTX 6000 (672 GB/s). The formula gives 88 ms, half as much again: presumably caches save
some of what it counts as traffic. Take these estimates for no better than that.

GPUs before compute capability 8.0, here the T4, run the plain torch path. It multiplies coordinates in
float64 and all else in float32, and keeps the kernel values of a group of blocks in memory. By this page it
is slower than the authors' procedure, which multiplies coordinates in float32 and loses digits there. Its
loss works tile by tile, and the time of that is not estimated.
"""


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render({n_points: count(n_points) for n_points in SIZES}), encoding="utf-8")
    print(f"written: {PAGE}")
