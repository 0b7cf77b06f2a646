"""Models compared by AP and tracks on the same events, each with the last one event by event.

    python -m benchmarks.tracking_study FRESH --tune TRAINED tracking-acts tracking-acts-fast model.pt

FRESH is a dataset of events that chose nothing; its split `test` is used. A model without a reconstruction of
its own gets it on the split `valid` of TRAINED. The error of a figure, and of its difference to the last
model, is the standard deviation over 1,000 bootstrap samples of the events, the same ones for all models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hept
from hepdata.loader.dataset import Dataset, open_dataset
from hept.evaluation.evaluator import run_for_metrics
from hept.evaluation.reconstruction import TrackFinder
from hept.evaluation.tuning import load_clustering
from hept.metrics.tracks import TargetCuts, TrackMatch
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel
from hept.model.weights import load_model
from hept.objectives.objective import make_objective

N_DRAWS, SEED = 1000, 1
FIGURES = (
    "AP@0.9",
    "double majority",
    "LHC",
    "perfect",
    "fakes",
    "fakes of targets",
    "TrackML score",
)

# Of every event and figure what it is a ratio of, (E, figures, 2).
Counts = NDArray[np.float64]


def judge(trained: TrainedModel, fresh: Dataset, tuning: Dataset | None, split: str) -> Counts:
    """Find the tracks of every event and count."""
    clustering = load_clustering(Path(trained.source))
    if clustering is None:
        if tuning is None:
            raise SystemExit(f"{trained.source} has no reconstruction: give --tune")
        clustering = hept.tune_clustering(trained, tuning)[0].clustering
    target = find_target(fresh)
    objective = make_objective(target, trained.config.loss, only_metric=True)
    finder = TrackFinder(target, clustering)
    rows = []
    for out, batch in run_for_metrics(trained, fresh, split):
        event = objective.scores()
        event.add(out, batch)
        finder.add(out, batch)
        rows.append([(event.result()[objective.metric], 1.0), *count(finder.matches[-1])])
    return np.array(rows)


def count(match: TrackMatch) -> list[tuple[float, float]]:
    """Of one event the tops and bottoms of all figures but AP."""
    is_target = TargetCuts().select(match)
    found = [
        (float(match.is_found[name][is_target].sum()), float(is_target.sum()))
        for name in ("double_majority", "lhc", "perfect")
    ]
    of_target = np.append(is_target, False)[match.major]
    is_fake = ~match.is_matched["double_majority"]
    return [
        *found,
        (float(is_fake.sum()), float(len(is_fake))),
        (float((is_fake & of_target).sum()), float(of_target.sum())),
        (match.score, 1.0),
    ]


def draw(counts: Counts) -> NDArray[np.float64]:
    """(1 + draws, figures): the figures of all events, then of each bootstrap sample."""
    drawn = np.random.default_rng(SEED).integers(0, len(counts), (N_DRAWS, len(counts)))
    sums = np.concatenate([counts.sum(0)[None], counts[drawn].sum(1)])
    ratios: NDArray[np.float64] = sums[..., 0] / sums[..., 1]
    return ratios


def tabulate(names: Sequence[str], found: Sequence[Counts]) -> list[str]:
    """Rows of a table, in percent: value ± error, and (difference to the last model ± its error)."""
    reference = draw(found[-1])
    lines = [f"| model | {' | '.join(FIGURES)} |", "|---|" + "---:|" * len(FIGURES)]
    for name, counts in zip(names, found, strict=True):
        own = draw(counts)
        cells = []
        for at in range(len(FIGURES)):
            difference = 100 * (own[:, at] - reference[:, at])
            cell = f"{100 * own[0, at]:.2f} ± {100 * own[1:, at].std():.2f}"
            if counts is not found[-1]:
                cell += f" ({difference[0]:+.2f} ± {difference[1:].std():.2f})"
            cells.append(cell)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Judge the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fresh")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tune")
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    fresh, tuning = open_dataset(given.fresh), open_dataset(given.tune) if given.tune else None
    found = [judge(load_model(model), fresh, tuning, given.split) for model in given.models]
    print("\n".join(tabulate(given.models, found)))
    if given.out is not None:
        kept = {name: counts.tolist() for name, counts in zip(given.models, found, strict=True)}
        given.out.write_text(json.dumps({"figures": FIGURES, "events": kept}) + "\n")


if __name__ == "__main__":
    main()
