"""Pileup mitigation compared: systems trained on the same events, beside PUPPI, paired by event.

    python -m benchmarks.pileup_study OUT simulated.root delphes.root --events 1000 40
    python -m benchmarks.pileup_study OUT --table

With five folds, every fifth event of each file is tested, twelve of the next fold of each file choose the
epoch and calibrate, and `--train` of each file's others train, the same for every system. `--apply` tests the
models on all events of further files, such as those of another number of collisions. What a fold gives is
kept in OUT/fold-N, another length of training or seed under its own name; the same command goes on where
another one stopped.

The table has each figure over all test events of a file, and its ratio to PUPPI's over the same events, with
a 68 % interval from resampling events, the same for both.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import hepdata
import hept
from hepdata.readers.delphes import survey_tree
from hepdata.schema import SCORED_PT
from hept.evaluation.inference import run_model
from hept.metrics.cleaning import MAX_ETA, Cleaning
from hept.metrics.jets import PT_MIN
from hept.metrics.missing_pt import resolution
from hept.model.weights import load_model

# Name to preset and settings.
SYSTEMS: dict[str, tuple[str, dict[str, object]]] = {
    "best": ("pileup-best", {}),
    "published": ("pileup-10k", {}),
    "gcn": ("pileup-best", {"model.kind": "gcn"}),
    "flatformer": ("pileup-best", {"model.kind": "flatformer"}),
    "focal": ("pileup-best", {"loss.kind": "focal"}),
    "fraction": ("pileup-best", {"loss.kind": "fraction"}),
    **{
        f"missing-pt-{factor:g}": ("pileup-best", {"loss.missing_pt": factor})
        for factor in (0.1, 0.01, 0.001)
    },
}
PUPPI = "puppi"
N_VALID = 12
# Training events of each file, epochs, and seed.
USUAL = {"train": [200], "epochs": [1], "seed": [42]}
N_RESAMPLED = 1000

Events = NDArray[np.int64]
# What is kept of a system and a fold, for each file.
Record = dict[str, dict[str, object]]


def split_fold(firsts: list[int], n_events: list[int], n_train: list[int], fold: int, n_folds: int) -> str:
    """The rule of a fold for `hept-data build --split`; each file's events are counted from its first."""
    rule = []
    for first, n, most in zip(firsts, n_events, n_train, strict=True):
        of_fold = np.arange(n) % n_folds
        parts = {
            "test": np.flatnonzero(of_fold == fold),
            "valid": np.flatnonzero(of_fold == (fold + 1) % n_folds)[:N_VALID],
        }
        parts["train"] = np.setdiff1d(np.arange(n), np.concatenate(list(parts.values())))[:most]
        rule += [f"{part}={first + event}" for part, events in parts.items() for event in events]
    return ",".join(rule)


@dataclass(frozen=True)
class Fold:
    """Datasets of one fold.

    Attributes:
        data: With the test events of all files.
        ends: Number of the event after each file's last one.
        names: Of the files.
        others: Datasets of further files, all of whose events are tested.
    """

    data: hepdata.Dataset
    ends: list[int]
    names: list[str]
    others: dict[str, hepdata.Dataset]

    def test(self, account: Callable[[hepdata.Dataset, list[int]], list[Cleaning]]) -> Record:
        """What is written of a system or a baseline."""
        found = dict(zip(self.names, account(self.data, self.ends), strict=True))
        found |= {name: account(other, [len(other["test"])])[0] for name, other in self.others.items()}
        return {name: keep(one) for name, one in found.items()}


def account_model(run: hept.Run, data: hepdata.Dataset, ends: list[int]) -> list[Cleaning]:
    """Test events under a model's calibrated weights, an account for each file."""
    trained = load_model(run)
    found = [Cleaning(weights=("model",)) for _ in ends]
    for out, batch in run_model(trained, data, "test"):
        columns = {name: values.cpu().numpy() for name, values in batch.columns.items()}
        weight = trained.calibration(out.reshape(-1).cpu().numpy(), columns["pt"])
        found[_file_of(int(batch.event_id[0]), ends)].add(columns, weight)
    return found


def account_baseline(name: str, data: hepdata.Dataset, ends: list[int]) -> list[Cleaning]:
    """Test events under weights that need no model, an account for each file."""
    found = [Cleaning(weights=(name,)) for _ in ends]
    for cloud in data["test"]:
        found[_file_of(cloud.event_id, ends)].add(dict(cloud.columns), np.zeros(cloud.n_points))
    return found


def _file_of(event: int, ends: list[int]) -> int:
    return int(np.searchsorted(ends, event, side="right"))


def keep(account: Cleaning) -> dict[str, object]:
    """What is written of an account."""
    name = account.weights[0]
    is_ranked = name in ("model", PUPPI)
    return {
        "true_met": np.array(account.true_met).tolist(),
        "met": np.array(account.met[name]).tolist(),
        "jets": {
            str(radius): {
                part: [rows.tolist() for rows in getattr(account.jets[name, radius], f"_{part}")]
                for part in ("true", "found")
            }
            for radius in PT_MIN
        },
        "average precision": account.classify(name).auc if is_ranked else None,
        "calibration error": account.calibration(name).error if is_ranked else None,
    }


def restore(kept: list[dict[str, object]]) -> Cleaning:
    """One account of what several folds have written."""
    account = Cleaning(weights=("model",))
    for part in kept:
        account.true_met += list(np.array(part["true_met"]))
        account.met["model"] += list(np.array(part["met"]))
        for radius in PT_MIN:
            jets, into = part["jets"][str(radius)], account.jets["model", radius]  # type: ignore[index]
            into._true += [np.array(rows).reshape(-1, 8) for rows in jets["true"]]
            into._found += [np.array(rows).reshape(-1, 4) for rows in jets["found"]]
    return account


def _met(account: Cleaning, events: Events) -> float:
    error = np.array(account.met["model"]) - np.array(account.true_met)
    return resolution(error[events])


def _of_met(name: str) -> Callable[[Cleaning, Events], float]:
    def figure(account: Cleaning, events: Events) -> float:
        return account.missing_pt("model", np.isin(np.arange(len(account.true_met)), events))[name]

    return figure


def _jet(radius: float) -> Callable[[Cleaning, Events], float]:
    def figure(account: Cleaning, events: Events) -> float:
        response = account.jets["model", radius].responses(events)
        return resolution(response) / float(np.median(response)) if len(response) else float("nan")

    return figure


def _of_jets(name: str, radius: float = 0.4) -> Callable[[Cleaning, Events], float]:
    return lambda account, _: account.jets["model", radius].result()[name]


COMPARED = {
    "missing-pT resolution, GeV": _met,
    "jet resolution": _jet(0.4),
    "jet resolution, R = 0.8": _jet(0.8),
}
FIGURES: dict[str, Callable[[Cleaning, Events], float]] = {
    **COMPARED,
    "along": _of_met("parallel"),
    "across": _of_met("perpendicular"),
    "scale": _of_met("scale"),
    "tail": _of_met("tail"),
    "jet response": _of_jets("response"),
    "jet efficiency": _of_jets("efficiency"),
    "jet fake rate": _of_jets("fake_rate"),
    "jet mass resolution, R = 0.8": _of_jets("mass_resolution", 0.8),
}


def compare(account: Cleaning, other: Cleaning) -> dict[str, list[float]]:
    """Ratio of each figure to the other's, and its 68 % interval over resampled events."""
    n = len(account.true_met)
    random = np.random.default_rng(0)
    draws = [np.arange(n), *(random.integers(0, n, n) for _ in range(N_RESAMPLED))]
    ratios = {}
    for name, figure in COMPARED.items():
        centre, *drawn = [figure(account, draw) / figure(other, draw) for draw in draws]
        ratios[name] = [centre, *np.nanquantile(drawn, [0.158655, 0.841345]).tolist()]
    return ratios


def tabulate(out: Path) -> dict[str, dict[str, dict[str, object]]]:
    """Figures by file and system over the folds that are there, and ratios to PUPPI's on the same events."""
    kept: dict[str, dict[str, dict[int, dict[str, object]]]] = {}
    for path in sorted(out.glob("fold-*/*.json")):
        for file, record in json.loads(path.read_text()).items():
            by_fold = kept.setdefault(file, {}).setdefault(path.stem, {})
            by_fold[int(path.parent.name.removeprefix("fold-"))] = record
    table: dict[str, dict[str, dict[str, object]]] = {}
    for file, systems in kept.items():
        for name, by_fold in systems.items():
            account = restore(list(by_fold.values()))
            events = np.arange(len(account.true_met))
            row: dict[str, object] = {
                "folds": len(by_fold),
                "events": len(events),
                "jets": account.jets["model", 0.4].result()["n_true"],
            }
            row |= {key: figure(account, events) for key, figure in FIGURES.items()}
            for key in ("average precision", "calibration error", "minutes", "steps"):
                values = [record.get(key) for record in by_fold.values()]
                row[f"{key}, mean of folds"] = (
                    None if None in values else float(np.mean(values))  # type: ignore[arg-type]
                )
            if set(by_fold) <= set(systems.get(PUPPI, {})):
                same = restore([systems[PUPPI][fold] for fold in by_fold])
                row["to PUPPI"] = compare(account, same)
            table.setdefault(file, {})[name] = row
    return table


def run_study(arguments: argparse.Namespace) -> Iterator[Path]:
    """Train and test what OUT does not have yet; yields each result."""
    n_there = [survey_tree(file).n_events for file in arguments.files]
    n_used = [min(pair) for pair in zip(arguments.events or n_there, n_there, strict=True)]
    n_train = (arguments.train * len(n_used))[: len(n_used)]
    ends = np.cumsum(n_there).tolist()
    for number in arguments.run_folds or range(arguments.folds):
        folder = arguments.out / f"fold-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name}.json" for name in arguments.baselines}
        paths |= {name: folder / f"{_label(name, arguments)}.json" for name in arguments.systems}
        missing = {name: path for name, path in paths.items() if not path.exists()}
        if not missing:
            continue
        rule = split_fold([0, *ends[:-1]], n_used, n_train, number, arguments.folds)
        with TemporaryDirectory() as work:
            fold = Fold(
                _build(arguments, arguments.files, Path(work) / "data", rule),
                ends,
                [Path(file).stem for file in arguments.files],
                {
                    Path(file).stem: _build(arguments, [file], Path(work) / Path(file).stem, "0/0/1")
                    for file in arguments.apply
                },
            )
            for name, path in missing.items():
                if name in SYSTEMS:
                    record = _train_and_test(name, fold, Path(work) / name, arguments)
                else:
                    record = fold.test(partial(account_baseline, name))
                part = path.with_suffix(".part")
                part.write_text(json.dumps(record))
                part.replace(path)
                yield path


def _train_and_test(name: str, fold: Fold, out: Path, arguments: argparse.Namespace) -> Record:
    preset, settings = SYSTEMS[name]
    changes = settings | {"max_minutes": None, "epochs": arguments.epochs, "seed": arguments.seed}
    begun = time.process_time()
    run = hept.fit(fold.data, out, preset=preset, settings=changes | {"logger": "csv"}, threads=1)
    minutes = (time.process_time() - begun) / 60
    record = fold.test(partial(account_model, run))
    for one in record.values():
        one |= {"minutes": minutes, "steps": arguments.epochs * len(fold.data["train"])}
    return record


def _label(system: str, arguments: argparse.Namespace) -> str:
    """Name of a result: the system, and how its training differs from the usual one."""
    values = {"train": arguments.train, "epochs": [arguments.epochs], "seed": [arguments.seed]}
    changed = [(name, value) for name, value in values.items() if value != USUAL[name]]
    return "-".join([system, *(str(part) for name, value in changed for part in (name, *value))])


def _build(arguments: argparse.Namespace, files: list[str], out: Path, rule: str) -> hepdata.Dataset:
    return hepdata.build_pileup(
        files,
        out,
        scored_pt=arguments.scored_pt,
        branches=arguments.branches,
        max_eta=MAX_ETA,
        split=rule,
        workers=1,
        progress=False,
    )


def main() -> None:
    """Run the study, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--events", type=int, nargs="+", help="of each file; all where not given")
    parser.add_argument("--train", type=int, nargs="+", default=USUAL["train"], help="at most, of each file")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--run-folds", type=int, nargs="*", help="only these")
    parser.add_argument("--apply", nargs="*", default=[], metavar="FILE", help="also test on these")
    parser.add_argument("--epochs", type=int, default=USUAL["epochs"][0])
    parser.add_argument("--seed", type=int, default=USUAL["seed"][0])
    parser.add_argument("--scored-pt", type=float, default=0.0, help=f"published: {SCORED_PT:g}")
    parser.add_argument("--branches", default="pf")
    parser.add_argument("--baselines", nargs="*", default=["truth", PUPPI, "chs", "none"])
    parser.add_argument("--systems", nargs="*", default=["best", "published", "gcn", "flatformer"])
    parser.add_argument("--table", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if not arguments.table:
        if arguments.events and len(arguments.files) != len(arguments.events):
            parser.error("--events needs a number for each file")
        for path in run_study(arguments):
            print(time.strftime("%H:%M"), path, flush=True)
    print(json.dumps(tabulate(arguments.out), indent=1))


if __name__ == "__main__":
    main()
