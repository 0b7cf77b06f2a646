"""Predictions of the paper about the order of systems, and whether they hold here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from hept.paper.comparison.comparison import Findings
from hept.paper.comparison.paper_tables import ResultTable
from hept.paper.comparison.published import accuracy_of, nearest_set
from hept.paper.systems.catalog import CATALOG, find_system


@dataclass(frozen=True)
class Claim:
    """One prediction.

    Attributes:
        text: The prediction in words.
        found: The measured numbers.
        holds: Whether they confirm the prediction; None if they are missing.
    """

    text: str
    found: str
    holds: bool | None


def check_claims(findings: Findings) -> list[Claim]:
    """Check all predictions for which there are numbers."""
    scores = {name: 100 * found[findings.metric] for name, found in findings.accuracy.items()}
    return [
        *_about_accuracy(scores),
        *_about_ablation(scores),
        *_about_cost(findings),
        *_about_order(findings, scores),
    ]


def tabulate_claims(findings: Findings) -> ResultTable:
    """The predictions as a table."""
    verdict = {True: "yes", False: "no", None: "–"}
    return ResultTable(
        "claims",
        "Predictions of the paper, and results here",
        ["prediction", "found", "holds"],
        [[claim.text, claim.found, verdict[claim.holds]] for claim in check_claims(findings)],
        [
            "One seed and one setting per system: the variation between seeds was not measured, so small "
            "differences are not significant."
        ],
    )


def _about_accuracy(scores: dict[str, float]) -> Iterator[Claim]:
    if "hept" in scores:
        families = {
            "efficient transformers": [one.name for one in CATALOG if one.family == "transformer"],
            "graph networks": [one.name for one in CATALOG if one.family == "graph"],
            "transformers with its kernel": [one.name for one in CATALOG if one.family == "kernel"],
            "chance": ["random"],
        }
        for family, names in families.items():
            known = {name: scores[name] for name in names if name in scores}
            if known:
                best = max(known, key=lambda name: known[name])
                yield _compare(f"HEPT beats {family}", scores, "hept", best)
    for name in ("smyrf", "flatformer"):
        if {name, f"{name}-khept"} <= set(scores):
            yield _compare(
                f"the kernel of HEPT lifts {find_system(name).label}", scores, f"{name}-khept", name
            )
    if {"performer-khept", "flatformer-khept"} <= set(scores):
        text = "random features profit less from the kernel of HEPT than local groups do"
        yield _compare(text, scores, "flatformer-khept", "performer-khept")


def _about_ablation(scores: dict[str, float]) -> Iterator[Claim]:
    pairs = [
        ("the local kernel matters", "hept", "hept-dot"),
        ("aligned OR & AND beats aligned OR-only", "or-and-tied", "or-only-tied"),
        ("alignment helps OR-only", "or-only-tied", "or-only"),
        ("alignment helps OR & AND", "or-and-tied", "or-and"),
        ("coordinates align better than tied queries and keys", "hept", "or-and-tied"),
    ]
    for text, better, worse in pairs:
        if {better, worse} <= set(scores):
            yield _compare(text, scores, better, worse)


def _about_cost(findings: Findings) -> Iterator[Claim]:
    graphs = {
        one.name: findings.cost[one.name]["test_ms"]
        for one in CATALOG
        if one.family == "graph" and one.name in findings.cost
    }
    if graphs and "hept" in findings.cost:
        fastest = min(graphs, key=lambda name: graphs[name])
        ours = findings.cost["hept"]["test_ms"]
        text = f"HEPT {ours:.0f} ms, fastest {find_system(fastest).label} {graphs[fastest]:.0f} ms"
        yield Claim("HEPT infers faster than graph networks", text, ours < graphs[fastest])


def _about_order(findings: Findings, scores: dict[str, float]) -> Iterator[Claim]:
    paper = nearest_set(findings.task, findings.points_per_cloud)
    both = [
        (score, published)
        for name, score in scores.items()
        if (published := accuracy_of(name, paper)) is not None
    ]
    if len(both) >= 4:
        correlation = float(spearmanr(*np.array(both).T).statistic)
        text = f"rank correlation {correlation:.2f} over {len(both)} systems"
        yield Claim(f"the order of systems is that of {paper}", text, correlation > 0.5)


def _compare(text: str, scores: dict[str, float], better: str, worse: str) -> Claim:
    labels = [find_system(name).label for name in (better, worse)]
    found = f"{labels[0]} {scores[better]:.1f}, {labels[1]} {scores[worse]:.1f}"
    return Claim(text, found, scores[better] > scores[worse])
