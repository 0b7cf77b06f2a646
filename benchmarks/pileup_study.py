"""Pileup mitigation compared: systems trained on the same events, beside PUPPI, paired by event.

    python -m benchmarks.pileup_study FILE.root --out study.json --folds 5 --epochs 4
    python -m benchmarks.pileup_study sample.root --out study.json --parts 300 20 1000 --apply other.root

With folds, every n-th event is tested in turn, four others choose the epoch and calibrate, and the rest
trains; with parts, the first events train, the next choose and calibrate, and the others are tested. Tables
have each figure over all test events, and its ratio to PUPPI's with a 68 % interval from resampling events,
the same for both. `--apply` tests the models on all events of further files.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import hepdata
import hept
from hept.evaluation.inference import run_model
from hept.metrics.classification import classify
from hept.metrics.cleaning import MAX_ETA, Cleaning
from hept.metrics.missing_pt import resolution
from hept.model.weights import load_model

# Name to preset and settings; all see the same events equally often.
SYSTEMS: dict[str, tuple[str, dict[str, object]]] = {
    "best": ("pileup-best", {}),
    "published": ("pileup-10k", {}),
    "gcn": ("pileup-best", {"model.kind": "gcn"}),
    "flatformer": ("pileup-best", {"model.kind": "flatformer"}),
    "laptop": ("pileup-laptop", {}),
    "focal": ("pileup-best", {"loss.kind": "focal"}),
    "cross-entropy": ("pileup-best", {"loss.kind": "cross-entropy"}),
    "missing-pt": ("pileup-best", {"loss.missing_pt": 0.1}),
}
N_VALID = 4
N_RESAMPLED = 1000
PUPPI = "puppi"


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


def split_parts(n_train: int, n_valid: int, n_test: int) -> str:
    """The rule of consecutive parts."""
    ends = np.cumsum([n_train, n_valid, n_test])
    return f"train=0-{ends[0] - 1},valid={ends[0]}-{ends[1] - 1},test={ends[1]}-{ends[2] - 1}"


class Study:
    """Accounts of systems and baselines over test events, and how long the systems were trained.

    Attributes:
        baselines: Weights that need no model, of `hept.metrics.cleaning.WEIGHTS`.
        accounts: One for each weight, over the same events in the same order.
        minutes: Of processor time in training, for each system, summed over folds.
    """

    def __init__(self, baselines: Sequence[str]) -> None:
        self.baselines = tuple(baselines)
        self.accounts: dict[str, Cleaning] = {}
        self.minutes: dict[str, float] = {}

    def add_baselines(self, data: hepdata.Dataset) -> None:
        """Take in the test events under the weights that need no model."""
        for cloud in data["test"]:
            for name in self.baselines:
                account = self.accounts.setdefault(name, Cleaning(weights=(name,)))
                account.add(dict(cloud.columns), np.zeros(cloud.n_points))

    def add_model(self, name: str, run: hept.Run, data: hepdata.Dataset, seconds: float) -> None:
        """Take in the test events under a model's calibrated weights."""
        trained = load_model(run)
        account = self.accounts.setdefault(name, Cleaning(weights=("model",)))
        for out, batch in run_model(trained, data, "test"):
            columns = {key: values.cpu().numpy() for key, values in batch.columns.items()}
            account.add(columns, trained.calibration(out.reshape(-1).cpu().numpy(), columns["pt"]))
        self.minutes[name] = self.minutes.get(name, 0.0) + seconds / 60

    def result(self) -> dict[str, object]:
        """Figures of every account, and their ratios to PUPPI's."""
        found: dict[str, object] = {}
        for name, account in self.accounts.items():
            weight = account.weights[0]
            events = np.arange(len(account.true_met))
            found[name] = {
                "events": len(events),
                "jets": account.jets[weight, 0.4].result()["n_true"],
                "processor minutes of training": round(self.minutes.get(name, 0.0), 1),
                "figures": {key: float(figure(account, events)) for key, figure in FIGURES.items()},
                "to PUPPI": self._compare(account),
            }
        return found

    def _compare(self, account: Cleaning) -> dict[str, list[float]]:
        """Ratio of a figure to PUPPI's, and the 68 % interval over resampled events."""
        other = self.accounts[PUPPI]
        n = len(account.true_met)
        random = np.random.default_rng(0)
        draws = [np.arange(n), *(random.integers(0, n, n) for _ in range(N_RESAMPLED))]
        ratios = {}
        for name in COMPARED:
            centre, *drawn = [FIGURES[name](account, draw) / FIGURES[name](other, draw) for draw in draws]
            ratios[name] = [centre, *np.nanquantile(drawn, [0.158655, 0.841345]).tolist()]
        return ratios


Events = NDArray[np.int64]


def _met(account: Cleaning, events: Events) -> float:
    error = np.array(account.met[account.weights[0]]) - np.array(account.true_met)
    return resolution(error[events])


def _parallel_or_across(name: str) -> Callable[[Cleaning, Events], float]:
    def figure(account: Cleaning, events: Events) -> float:
        chosen = np.isin(np.arange(len(account.true_met)), events)
        return account.missing_pt(account.weights[0], chosen)[name]

    return figure


def _jet(radius: float) -> Callable[[Cleaning, Events], float]:
    def figure(account: Cleaning, events: Events) -> float:
        response = account.jets[account.weights[0], radius].responses(events)
        return resolution(response) / float(np.median(response)) if len(response) else float("nan")

    return figure


def _of_jets(name: str) -> Callable[[Cleaning, Events], float]:
    return lambda account, _: account.jets[account.weights[0], 0.4].result()[name]


def _average_precision(account: Cleaning, _: Events) -> float:
    name = account.weights[0]
    if name not in ("model", PUPPI):
        return float("nan")
    return classify(account.pooled(name), account.pooled("is_leading")).auc


def _calibration_error(account: Cleaning, _: Events) -> float:
    name = account.weights[0]
    return account.calibration(name).error if name in ("model", PUPPI) else float("nan")


FIGURES: dict[str, Callable[[Cleaning, Events], float]] = {
    "missing-pT resolution, GeV": _met,
    "along": _parallel_or_across("parallel"),
    "across": _parallel_or_across("perpendicular"),
    "tail": _parallel_or_across("tail"),
    "jet resolution": _jet(0.4),
    "jet resolution, R = 0.8": _jet(0.8),
    "jet response": _of_jets("response"),
    "jet efficiency": _of_jets("efficiency"),
    "jet fake rate": _of_jets("fake_rate"),
    "average precision": _average_precision,
    "calibration error": _calibration_error,
}
COMPARED = ("missing-pT resolution, GeV", "jet resolution", "jet resolution, R = 0.8")


def run_study(arguments: argparse.Namespace, folder: Path) -> dict[str, Study]:
    """Train and test every system in every fold; a study for the files, and one for each further file."""
    studies = {name: Study(arguments.baselines) for name in ("test", *arguments.apply)}
    further = {}
    for number, file in enumerate(arguments.apply):
        further[file] = _build(arguments, [file], folder / f"further-{number}", "0/0/1")
        studies[file].add_baselines(further[file])
    n_folds = 1 if arguments.parts else arguments.folds
    for fold in arguments.run_folds or range(n_folds):
        n = sum(arguments.parts) if arguments.parts else arguments.events
        rule = split_parts(*arguments.parts) if arguments.parts else split_fold(n, fold, n_folds)
        data = _build(arguments, arguments.files, folder / f"fold-{fold}", rule, n)
        studies["test"].add_baselines(data)
        for name in arguments.systems:
            preset, settings = SYSTEMS[name]
            changes = settings | {"max_minutes": None, "epochs": arguments.epochs, "seed": arguments.seed}
            begun = time.process_time()
            run = hept.fit(data, folder / f"{name}-{fold}", preset=preset, settings=changes, threads=1)
            seconds = time.process_time() - begun
            studies["test"].add_model(name, run, data, seconds)
            for file, other in further.items():
                studies[file].add_model(name, run, other, seconds)
            found = {file: study.result() for file, study in studies.items()}
            arguments.out.write_text(json.dumps(found, indent=1))
            print(time.strftime("%H:%M"), fold, name, found["test"][name], flush=True)
    return studies


def _build(
    arguments: argparse.Namespace, files: list[str], out: Path, rule: str, n_events: int | None = None
) -> hepdata.Dataset:
    return hepdata.build_pileup(
        files,
        out,
        max_events=n_events,
        scored_pt=arguments.scored_pt,
        branches=arguments.branches,
        max_eta=MAX_ETA,
        split=rule,
        workers=1,
    )


def main() -> None:
    """Run the study; its numbers are printed and stored after every training."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--run-folds", type=int, nargs="*", help="only these")
    parser.add_argument("--parts", type=int, nargs=3, metavar=("TRAIN", "VALID", "TEST"), help="no folds")
    parser.add_argument("--apply", nargs="*", default=[], metavar="FILE", help="also test on these")
    parser.add_argument("--work", type=Path, help="keep datasets and runs in this new folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--scored-pt", type=float)
    parser.add_argument("--branches")
    parser.add_argument("--systems", nargs="+", default=["best", "published", "gcn", "flatformer"])
    parser.add_argument("--baselines", nargs="+", default=["truth", PUPPI, "chs", "none"])
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        studies = run_study(arguments, arguments.work or Path(folder))
    for file, study in studies.items():
        print(file)
        for name, found in study.result().items():
            print(" ", name, found)


if __name__ == "__main__":
    main()
