"""Pileup mitigation compared: systems trained fold by fold on Delphes events, beside PUPPI, paired by event.

    python -m benchmarks.pileup_study FILE.root --out study.json --minutes 10

Every system sees the same events: in fold k of n, every n-th event is tested, four others choose the best
epoch, and the rest trains. The tables give each figure over all test events, and its ratio to PUPPI with a
68 % interval from resampling events (the same events for both). A simulated sample comes from
`hept-data simulate pileup sample.root --events 1000 --seed 1`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import hepdata
import hept
from hept.evaluation.evaluator import assess, run_for_metrics
from hept.metrics.cleaning import WEIGHTS, Cleaning
from hept.metrics.missing_pt import resolution
from hept.model.weights import load_model

# Name to preset and settings; the budget of time is the same for all.
SYSTEMS: dict[str, tuple[str, dict[str, object]]] = {
    "best": ("pileup-best", {}),
    "published": ("pileup-10k", {}),
    "laptop": ("pileup-laptop", {}),
    "gcn": ("pileup-best", {"model.kind": "gcn"}),
    "flatformer": ("pileup-best", {"model.kind": "flatformer"}),
    "focal": ("pileup-best", {"loss.kind": "focal"}),
    "cross-entropy": ("pileup-best", {"loss.kind": "cross-entropy"}),
    "missing-pt": ("pileup-best", {"loss.missing_pt": 0.1}),
}
N_VALID = 4
N_RESAMPLED = 500


def split_fold(n_events: int, fold: int, n_folds: int) -> str:
    """The rule of a fold for `hept-data build --split`."""
    rule = []
    n_valid = 0
    for event in range(n_events):
        if event % n_folds == fold:
            rule.append(f"test={event}")
        elif (event + 1) % n_folds == fold and n_valid < N_VALID:
            rule.append(f"valid={event}")
            n_valid += 1
        else:
            rule.append(f"train={event}")
    return ",".join(rule)


def study(arguments: argparse.Namespace, folder: Path) -> dict[str, Cleaning]:
    """Train and test every system in every fold; one account for each."""
    accounts: dict[str, Cleaning] = {}
    for fold in arguments.run_folds or range(arguments.folds):
        rule = split_fold(arguments.events, fold, arguments.folds)
        data = hepdata.build_pileup(
            arguments.files,
            folder / f"fold-{fold}",
            max_events=arguments.events,
            scored_pt=arguments.scored_pt,
            branches=arguments.branches,
            split=rule,
        )
        for name in arguments.systems:
            preset, settings = SYSTEMS[name]
            changes = settings | {"max_minutes": arguments.minutes, "epochs": arguments.epochs}
            run = hept.fit(data, folder / f"{name}-{fold}", preset=preset, settings=changes)
            trained = load_model(run)
            found = assess(trained, data, run_for_metrics(trained, data, "test")).cleaning
            if found is not None:
                accounts[name] = found if name not in accounts else join(accounts[name], found)
                print(fold, name, summarise(accounts[name], "model"), flush=True)
    return accounts


def join(one: Cleaning, other: Cleaning) -> Cleaning:
    """Both accounts as one."""
    one.true_met += other.true_met
    one.particles += other.particles
    one.n_collisions += other.n_collisions
    for name in WEIGHTS:
        one.met[name] += other.met[name]
    for key, account in other.jets.items():
        one.jets[key].extend(account)
    return one


def summarise(account: Cleaning, weight: str) -> dict[str, float]:
    """The figures that the study compares."""
    return {name: round(function(account, weight, None), 4) for name, function in FIGURES.items()}


def _met(account: Cleaning, weight: str, events: NDArray[np.int64] | None) -> float:
    error = np.array(account.met[weight]) - np.array(account.true_met)
    return resolution(error if events is None else error[events])


def _jet(account: Cleaning, weight: str, events: NDArray[np.int64] | None) -> float:
    response = account.jets[weight, 0.4].responses(events)
    return resolution(response) / float(np.median(response)) if len(response) else float("nan")


FIGURES: dict[str, Callable[[Cleaning, str, NDArray[np.int64] | None], float]] = {
    "missing-pT resolution, GeV": _met,
    "jet resolution": _jet,
}


def compare(account: Cleaning) -> dict[str, list[float]]:
    """Ratio of the model's figure to PUPPI's, and the 68 % interval over resampled events."""
    random = np.random.default_rng(0)
    n = len(account.true_met)
    draws = [random.integers(0, n, n) for _ in range(N_RESAMPLED)]
    ratios = {}
    for name, figure in FIGURES.items():
        of_draws = [figure(account, "model", draw) / figure(account, "puppi", draw) for draw in draws]
        centre = figure(account, "model", None) / figure(account, "puppi", None)
        ratios[name] = [centre, *np.nanquantile(of_draws, [0.158655, 0.841345]).tolist()]
    return ratios


def main() -> None:
    """Run the study and print and store its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--run-folds", type=int, nargs="*", help="only these")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--scored-pt", type=float)
    parser.add_argument("--branches")
    parser.add_argument("--systems", nargs="+", default=["best", "published", "gcn", "flatformer"])
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        accounts = study(arguments, Path(folder))
    found: dict[str, object] = {}
    for name, account in accounts.items():
        print(f"{name}: {summarise(account, 'model')}, ratio to PUPPI {compare(account)}")
        found[name] = {
            "figures": account.result(),
            "to_puppi": compare(account),
            "events": len(account.true_met),
        }
    for weight in ("puppi", "truth", "chs", "none"):
        print(f"{weight}: {summarise(account, weight)}")
    arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
