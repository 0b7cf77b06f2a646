"""Numbers of the paper, as printed there: tables 1, 2, 3, 5, memory and FLOPs, and the latency breakdown.

Rows are names of the catalog; AP@k and AUC are in percent, times in ms on a Quadro RTX 6000, memory in GB.
"""

from __future__ import annotations

import math
from typing import Literal

PaperSet = Literal["Tracking-6k", "Tracking-60k", "Pileup-10k"]
PAPER_SETS: tuple[PaperSet, ...] = ("Tracking-6k", "Tracking-60k", "Pileup-10k")
# Points per cloud for which a dataset is comparable with a set of the paper: within about a factor of 2.
COMPARABLE: dict[PaperSet, tuple[str, float, float]] = {
    "Tracking-6k": ("tracking", 3_000, 14_000),
    "Tracking-60k": ("tracking", 28_000, 120_000),
    "Pileup-10k": ("pileup", 5_000, 20_000),
}

_ACCURACY: dict[str, tuple[float, float, float]] = {
    "random": (5.88, 5.71, 4.22),
    "reformer": (72.37, 72.47, 36.70),
    "smyrf": (72.98, 71.18, 25.20),
    "hyperattn": (71.49, 70.22, 25.31),
    "performer": (73.17, 72.07, 28.36),
    "flt": (72.55, 71.45, 25.26),
    "scatterbrain": (73.35, 72.06, 30.95),
    "pointtrans": (72.33, 70.81, 40.26),
    "flatformer": (74.22, 70.23, 38.61),
    "gcn": (79.61, 75.38, 40.10),
    "dgcnn": (90.74, 88.66, 33.75),
    "gravnet": (90.11, 87.99, 40.10),
    "gatedgnn": (80.98, 78.42, 40.26),
    "performer-khept": (71.97, 69.20, 32.81),
    "smyrf-khept": (83.19, 71.04, 40.31),
    "flatformer-khept": (88.18, 85.06, 39.99),
    "hept": (92.66, 91.93, 40.39),
}
# Training, graph construction within it, and inference.
_TIME: dict[str, tuple[tuple[float, float | None, float], ...]] = {
    "reformer": ((355, None, 23.1), (2570, None, 251), (83.3, None, 23.4)),
    "smyrf": ((348, None, 8.7), (2343, None, 69.6), (58.6, None, 12.4)),
    "hyperattn": ((352, None, 8.4), (2320, None, 62.1), (44.4, None, 12.5)),
    "performer": ((343, None, 8.3), (2407, None, 68.7), (52.7, None, 12.8)),
    "flt": ((341, None, 8.4), (2369, None, 71.6), (55.9, None, 12.7)),
    "scatterbrain": ((357, None, 13.1), (2562, None, 129), (109, None, 34.6)),
    "pointtrans": ((476, 130, 144), (7361, 5017, 5143), (372, 323, 348)),
    "flatformer": ((338, None, 8.3), (2261, None, 58.7), (53.7, None, 12.2)),
    "gcn": ((471, 129, 138), (7332, 5009, 5123), (376, 322, 342)),
    "dgcnn": ((563, None, 287), (14098, None, 11779), (325, None, 294)),
    "gravnet": ((593, None, 251), (13597, None, 11684), (312, None, 278)),
    "gatedgnn": ((512, 131, 158), (7476, 5013, 5263), (432, 328, 362)),
    "hept": ((338, None, 7.0), (2312, None, 57.9), (40.3, None, 10.7)),
}
# GFLOPs, training memory, inference memory.
_MEMORY: dict[str, tuple[tuple[float, float, float], ...]] = {
    "reformer": ((6.8, 1.8, 0.7), (101.0, 19.0, 9.4), (8.0, 1.4, 0.6)),
    "smyrf": ((5.3, 1.4, 0.6), (54.6, 20.9, 3.6), (8.1, 1.6, 0.5)),
    "hyperattn": ((5.2, 1.2, 0.52), (54.3, 19.4, 3.3), (8.7, 1.5, 0.6)),
    "performer": ((5.6, 1.3, 0.6), (58.6, 20.0, 3.7), (9.7, 1.5, 0.6)),
    "flt": ((6.4, 1.2, 0.5), (66.9, 19.2, 3.5), (9.9, 1.3, 0.6)),
    "scatterbrain": ((6.4, 2.1, 0.7), (58.8, 21.0, 5.2), (9.7, 2.6, 0.8)),
    "pointtrans": ((2.9, 1.2, 0.5), (30.6, 18.3, 4.4), (4.9, 1.3, 0.7)),
    "flatformer": ((5.7, 1.3, 0.5), (58.7, 19.8, 2.5), (9.6, 1.6, 0.4)),
    "gcn": ((2.0, 1.2, 0.6), (20.9, 18.6, 4.1), (3.4, 1.3, 0.4)),
    "dgcnn": ((11.9, 1.6, 0.6), (124.0, 22.3, 4.1), (15.5, 1.9, 0.6)),
    "gravnet": ((2.1, 0.8, 0.2), (21.9, 14.5, 2.4), (4.3, 0.7, 0.4)),
    "gatedgnn": ((2.4, 2.5, 1.2), (24.8, 23.8, 10.6), (3.9, 3.3, 1.5)),
    "hept": ((5.0, 1.3, 0.5), (52.2, 19.9, 2.9), (8.5, 1.3, 0.2)),
}
# On Tracking-60k only.
ABLATION: dict[str, float] = {
    "hept-dot": 72.28,
    "or-only": 71.42,
    "or-only-tied": 78.22,
    "or-and": 70.98,
    "or-and-tied": 88.54,
    "hept": 91.93,
}
# (tables, block size): AP@k and GFLOPs, on Tracking-60k.
SENSITIVITY: dict[tuple[int, int], tuple[float, float]] = {
    (1, 50): (73.57, 24.2),
    (1, 100): (78.60, 29.8),
    (1, 150): (80.91, 35.4),
    (3, 50): (87.47, 35.6),
    (3, 100): (91.93, 52.2),
    (3, 150): (92.22, 68.9),
    (5, 50): (91.89, 46.9),
    (5, 100): (92.27, 74.7),
    (5, 150): (92.34, 102.6),
}
# Inference: attention, other. Training: loss and backward, attention, other.
_LATENCY: dict[PaperSet, tuple[tuple[float, float], tuple[float, float, float]]] = {
    "Tracking-6k": ((5.8, 1.2), (330, 6.6, 1.3)),
    "Tracking-60k": ((52.8, 5.1), (2248, 57.1, 6.2)),
    "Pileup-10k": ((9.2, 1.5), (28.2, 10.4, 1.7)),
}


def find_comparable(task: str, points_per_cloud: float) -> PaperSet | None:
    """The set of the paper with the same task and a similar number of points per cloud."""
    for name, (of_task, least, most) in COMPARABLE.items():
        if task == of_task and least <= points_per_cloud <= most:
            return name
    return None


def nearest_set(task: str, points_per_cloud: float) -> PaperSet | None:
    """The set of the paper with the same task and the closest size; None for a task not in the paper."""
    distances = {
        name: abs(math.log(max(points_per_cloud, 1) ** 2 / (least * most)))
        for name, (of_task, least, most) in COMPARABLE.items()
        if of_task == task
    }
    return min(distances, key=lambda name: distances[name], default=None)


def accuracy_of(name: str, paper_set: PaperSet | None) -> float | None:
    """Table 1, in percent."""
    row = _ACCURACY.get(name)
    return None if row is None or paper_set is None else row[PAPER_SETS.index(paper_set)]


def time_of(name: str, paper_set: PaperSet | None) -> tuple[float | None, float | None, float | None]:
    """Table 2: training, graph construction in it, inference, in ms."""
    row = _TIME.get(name)
    return (None, None, None) if row is None or paper_set is None else row[PAPER_SETS.index(paper_set)]


def memory_of(name: str, paper_set: PaperSet | None) -> tuple[float | None, float | None, float | None]:
    """GFLOPs, and memory of training and inference in GB."""
    row = _MEMORY.get(name)
    return (None, None, None) if row is None or paper_set is None else row[PAPER_SETS.index(paper_set)]


def latency_of(paper_set: PaperSet | None) -> tuple[list[float | None], list[float | None]]:
    """The latency breakdown: (attention, other) and (loss and backward, attention, other), in ms."""
    if paper_set is None:
        return [None, None], [None, None, None]
    inference, training = _LATENCY[paper_set]
    return list(inference), list(training)
