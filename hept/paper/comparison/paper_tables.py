"""The paper's tables with measured numbers, next to published ones where they are comparable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hept.paper.comparison.comparison import Findings
from hept.paper.comparison.published import (
    ABLATION,
    SENSITIVITY,
    accuracy_of,
    find_comparable,
    latency_of,
    memory_of,
    time_of,
)
from hept.paper.comparison.trainings import ABLATIONS
from hept.paper.systems.catalog import find_system

Cell = str | float | int | None


@dataclass(frozen=True)
class ResultTable:
    """A table to print, save and draw.

    Attributes:
        name: Name of its files.
        title: Title above the table.
        header: Names of columns.
        rows: Cells; None for missing values.
        notes: Notes below the table.
    """

    name: str
    title: str
    header: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)


def make_tables(findings: Findings) -> list[ResultTable]:
    """All requested tables."""
    makers = {
        "accuracy": tabulate_accuracy,
        "time": tabulate_time,
        "memory": tabulate_memory,
        "ablation": tabulate_ablation,
        "sensitivity": tabulate_sensitivity,
        "latency": tabulate_latency,
        "scaling": tabulate_scaling,
    }
    return [makers[name](findings) for name in findings.settings.tables]


def tabulate_accuracy(findings: Findings) -> ResultTable:
    """Table 1."""
    paper = find_comparable(findings.task, findings.points_per_cloud)
    rows: list[list[Cell]] = []
    for name in findings.settings.models:
        found = findings.accuracy.get(name)
        ours = None if found is None else 100 * found[findings.metric]
        epochs = None if found is None else int(found["epochs"])
        rows.append([find_system(name).label, ours, accuracy_of(name, paper), epochs])
    return ResultTable(
        "accuracy",
        f"Table 1. Predictive performance on {findings.source}",
        ["system", findings.metric_label, f"paper, {paper or 'no comparable set'}", "epochs trained"],
        rows,
        list(_notes(findings)),
    )


def tabulate_time(findings: Findings) -> ResultTable:
    """Table 2."""
    paper = find_comparable(findings.task, findings.points_per_cloud)
    rows: list[list[Cell]] = []
    for name, found in findings.cost.items():
        rows.append(
            [
                find_system(name).label,
                found["train_ms"],
                found["test_ms"],
                found.get("graph_ms"),
                *time_of(name, paper),
            ]
        )
    points = next((found["points"] for found in findings.cost.values()), 0.0)
    return ResultTable(
        "time",
        f"Table 2. Time per cloud of {points:,.0f} points, ms",
        ["system", "train", "test", "graph (in both)", "paper: train", "paper: graph", "paper: test"],
        rows,
        [
            "Train and test include the graph of the input; DGCNN and GravNet build graphs of features "
            "inside the network."
        ],
    )


def tabulate_memory(findings: Findings) -> ResultTable:
    """The table of FLOPs and memory."""
    paper = find_comparable(findings.task, findings.points_per_cloud)
    rows: list[list[Cell]] = []
    for name, found in findings.cost.items():
        ours: list[Cell] = [int(found["parameters"]), found["gmacs"], found["train_gb"], found["test_gb"]]
        rows.append([find_system(name).label, *ours, *memory_of(name, paper)])
    return ResultTable(
        "memory",
        "FLOPs (G) and memory (GB)",
        [
            "system",
            "parameters",
            "GFLOPs",
            "train, GB",
            "test, GB",
            "paper: GFLOPs",
            "paper: train",
            "paper: test",
        ],
        rows,
        [
            "GFLOPs are multiply-adds of matrix products in one forward pass, as in the paper: sums over "
            "neighbours do not count, the distances of DGCNN's neighbour search do. Memory is the peak "
            "growth of the process."
        ],
    )


def tabulate_ablation(findings: Findings) -> ResultTable:
    """Table 3."""
    is_comparable = find_comparable(findings.task, findings.points_per_cloud) == "Tracking-60k"
    rows: list[list[Cell]] = []
    for name in ABLATIONS:
        found = findings.accuracy.get(name)
        ours = None if found is None else 100 * found[findings.metric]
        rows.append([find_system(name).label, ours, ABLATION[name] if is_comparable else None])
    return ResultTable(
        "ablation",
        "Table 3. Ablation of HEPT",
        ["variant", findings.metric_label, "paper, Tracking-60k"],
        rows,
        ["* queries tied to keys."],
    )


def tabulate_sensitivity(findings: Findings) -> ResultTable:
    """Table 5."""
    is_comparable = find_comparable(findings.task, findings.points_per_cloud) == "Tracking-60k"
    rows: list[list[Cell]] = []
    for (n_tables, block), (score, cost) in findings.grid.items():
        ours = None if score is None else 100 * score[findings.metric]
        published = SENSITIVITY.get((n_tables, block), (None, None)) if is_comparable else (None, None)
        rows.append([n_tables, block, ours, cost["gmacs"], *published])
    return ResultTable(
        "sensitivity",
        "Table 5. HEPT by number of hash tables and block size",
        ["tables", "block size", "score, %", "GFLOPs", "paper: score", "paper: GFLOPs"],
        rows,
    )


def tabulate_latency(findings: Findings) -> ResultTable:
    """The latency breakdown of HEPT."""
    paper = find_comparable(findings.task, findings.points_per_cloud)
    inference, training = latency_of(paper)
    found = findings.latency or {}
    parts = [
        ("inference", [("attention", "test_attention"), ("other", "test_other")], inference),
        (
            "training",
            [
                ("loss + backward", "train_loss_backward"),
                ("attention", "train_attention"),
                ("other", "train_other"),
            ],
            training,
        ),
    ]
    rows: list[list[Cell]] = []
    for phase, names, published in parts:
        ours = [found.get(key) for _, key in names]
        for (label, _), mine, theirs in zip(names, ours, published, strict=True):
            rows.append([phase, label, mine, _share(mine, ours), theirs, _share(theirs, published)])
    return ResultTable(
        "latency",
        "Latency breakdown of HEPT, ms",
        ["phase", "part", "ours", "ours, %", "paper", "paper, %"],
        rows,
    )


def tabulate_scaling(findings: Findings) -> ResultTable:
    """The numbers behind the scaling figure."""
    rows: list[list[Cell]] = []
    for name, curve in findings.scaling.items():
        for found in curve:
            keys = ("test_ms", "test_gb", "train_ms", "train_gb")
            rows.append([find_system(name).label, int(found["points"]), *(found[key] for key in keys)])
    return ResultTable(
        "scaling",
        "Cost against the number of points (pileup setting, random clouds)",
        ["system", "points", "test, ms", "test, GB", "train, ms", "train, GB"],
        rows,
        ["A curve ends where a training step takes too long or the next would not fit into memory."],
    )


def _notes(findings: Findings) -> Iterator[str]:
    paper = find_comparable(findings.task, findings.points_per_cloud)
    if paper is None:
        yield (
            f"Clouds of {findings.points_per_cloud:,.0f} points are not comparable with any set of the paper "
            "(6.8k and 56.7k hits, 10.3k particles); only the order of systems can be compared."
        )
    for key, reason in findings.failed.items():
        yield f"{key} failed: {reason}"
    if findings.is_stopped:
        yield "Stopped before the end; the same command continues."


def _share(part: float | None, parts: list[float | None]) -> float | None:
    known = [value for value in parts if value is not None]
    return None if part is None or not sum(known) else 100 * part / sum(known)
