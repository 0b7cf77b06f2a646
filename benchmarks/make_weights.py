"""Make the weights in `hept/weights`: events are simulated, a preset is trained, weights and a card are kept.

    python -m benchmarks.make_weights /scratch/tracking-acts

makes each of `WEIGHTS` by one training after another, and tunes its reconstruction. Events, datasets and runs
stay in that folder: the same command continues what was stopped. A limit of time makes the number of steps,
and with it the weights, depend on the machine; events, settings and seed do not.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import hepdata
import hept
from hept.model.kept import FOLDER
from hept.model.network import count_parameters
from hept.model.weights import load_model, read_card
from hept.runs.folder import BEST, RunFolder

SEED = 7
# Numbers of the first and the last simulated event.
EVENTS = (1000, 2183)
# Events of a dataset for training and for choices.
FIRST = "train=1000-1283,valid=1284-1299"
MORE = "train=1000-1499,valid=1500-1515"
ALL = "train=1000-1499,train=2000-2183,valid=1500-1515"


@dataclass(frozen=True)
class Training:
    """A training; each after the first of its weights goes on where that before it ended."""

    preset: str
    split: str
    settings: tuple[str, ...] = ()


WEIGHTS = {
    "tracking-acts-fast": (Training("tracking-ten-minutes", ALL),),
    "tracking-acts": (
        Training("tracking-best", FIRST, ("model.block_size=64", "loss.low_pt_part=1")),
        Training(
            "tracking-best",
            MORE,
            (
                "max_minutes=55",
                "optimizer.lr=2e-3",
                "optimizer.warmup_steps=20",
                "augment.wedge=0.5",
                "loss.low_pt_part=1",
            ),
        ),
        Training(
            "tracking-best",
            ALL,
            (
                "max_minutes=29",
                "optimizer.lr=3e-3",
                "optimizer.warmup_steps=20",
                "model.block_size=512",
                "ema_decay=0.999",
            ),
        ),
    ),
}


def prepare(work: Path, split: str, *, workers: int) -> hepdata.Dataset:
    """The dataset of a split."""
    raw, (first, last) = work / "train", EVENTS
    if not (raw / f"event{last:09d}-hits.csv").exists():
        hepdata.simulate_tracking(
            raw, engine="acts", events=last - first + 1, seed=SEED, first_event=first, workers=workers
        )
    out = work / f"dataset-{split.replace('=', '-').replace(',', '-')}"
    return hepdata.build_tracking(raw, out, pairs="none", split=split, workers=workers)


def train(name: str, work: Path, *, threads: int | None) -> hept.Run:
    """Train, or continue, one of the weights, and tune its reconstruction."""
    runs: list[hept.Run] = []
    for training in WEIGHTS[name]:
        run = hept.fit(
            prepare(work, training.split, workers=threads or 1),
            work / f"{name}-{len(runs) + 1}",
            preset=training.preset,
            settings=training.settings,
            init=runs[-1] if runs else None,
            threads=threads,
            progress=True,
        )
        runs.append(run)
    hept.tune_clustering(runs[-1], threads=threads)
    return runs[-1]


def keep(name: str, run: hept.Run, out: Path) -> None:
    """Copy weights and reconstruction, and write the card."""
    out.mkdir(exist_ok=True)
    shutil.copyfile(run.path / BEST, out / f"{name}.safetensors")
    shutil.copyfile(run.path / "clustering.json", out / f"{name}.clustering.json")
    (out / f"{name}.md").write_text(describe(name, run), encoding="utf-8")


def count_events(split: str, part: str) -> int:
    """Events of a part of a split."""
    ranges = [text.partition("=")[2].split("-") for text in split.split(",") if text.startswith(part)]
    return sum(int(last) - int(first) + 1 for first, last in ranges)


def describe(name: str, run: hept.Run) -> str:
    """The card of a model."""
    trained, card = load_model(run.path), read_card(run.path / BEST)
    folder = RunFolder(run.path)
    description, rows = folder.read_description(), folder.read_rows("metrics")
    row = next(each for each in rows if int(each["epoch"]) == card.epoch)
    minutes = sum(float(each["seconds"]) for each in rows) / 60
    columns = ", ".join(f"`{entry.column}`" for entry in trained.features)
    trainings = WEIGHTS[name]
    n_events = {part: count_events(trainings[-1].split, part) for part in ("train", "valid")}
    steps = "\n".join(f"1. `{' '.join((each.preset, *each.settings))}`" for each in trainings)
    metrics = "\n".join(f"| {key} | {value:.4g} |" for key, value in sorted(card.metrics.items()))
    clustering = json.dumps(json.loads((run.path / "clustering.json").read_text()))
    return f"""# {name}

Embeddings of pixel hits of the TrackML detector, and a reconstruction of tracks from them:
`hept-data build tracking RAW EVENTS`, then `hept-train predict {name} EVENTS --out tracks.parquet`.

**Trained on simulated events only**: {n_events["train"]} events of
`hept-data simulate tracking --engine acts` (Pythia tt̄ with soft collisions, ACTS Fatras; seed {SEED}, about
6,600 pixel hits each), {n_events["valid"]} others to choose. Other detectors, other densities and real data
need training of their own; `hept-train fit --init {name}` starts from these weights.

- {count_parameters(trained.network):,} parameters, seed {run.config.seed}; the last training took
  {row["step"]} steps in {minutes:.0f} minutes with {description["threads"]} CPU thread(s)
- made by `python -m benchmarks.make_weights FOLDER`
- inputs: {columns}
- dataset fingerprint `{card.dataset}`, epoch {card.epoch}
- reconstruction, chosen on the validation events: `{clustering}`

Trainings, each a preset with changed settings, which goes on where that before it ended:

{steps}

On the validation events, which also chose the epoch:

| figure | value |
|---|---|
{metrics}

Figures on events that chose nothing are in the documentation, "What is measured". Licence: MIT.
"""


def main() -> None:
    """Make all weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("work", type=Path, help="folder for events, dataset and runs")
    parser.add_argument("--only", nargs="+", choices=list(WEIGHTS), default=list(WEIGHTS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    for name in given.only:
        keep(name, train(name, given.work, threads=given.threads), given.out)


if __name__ == "__main__":
    main()
