"""Make the weights in `hept/weights`: events are simulated, a preset is trained, weights and a card are kept.

    python -m benchmarks.make_weights /scratch/tracking-acts

trains both weights of `WEIGHTS` one after the other on the first 300 simulated events, and those of `MORE`
again on all 516. Events, datasets and runs stay in that folder: the same command continues what was stopped.
A limit of time makes the number of steps, and with it the weights, depend on the machine; events, settings
and seed do not.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import hepdata
import hept
from hept.model.kept import FOLDER
from hept.model.network import count_parameters
from hept.model.weights import load_model, read_card
from hept.runs.folder import BEST, RunFolder

# Name to preset.
WEIGHTS = {"tracking-acts-fast": "tracking-ten-minutes", "tracking-acts": "tracking-best"}
# Settings of a second training, on all events.
MORE = {
    "tracking-acts": (
        "max_minutes=55",
        "optimizer.lr=2e-3",
        "optimizer.warmup_steps=20",
        "augment.wedge=0.5",
    )
}
N_FIRST, N_ALL, SEED, FIRST = 300, 516, 7, 1000
N_VALID = 16


def prepare(work: Path, n_events: int, *, workers: int) -> hepdata.Dataset:
    """The dataset of the first events; the last ones of it choose the epoch and the reconstruction."""
    raw, last = work / "train", FIRST + n_events - 1
    if not (raw / f"event{FIRST + N_ALL - 1:09d}-hits.csv").exists():
        hepdata.simulate_tracking(
            raw, engine="acts", events=N_ALL, seed=SEED, first_event=FIRST, workers=workers
        )
    split = f"train={FIRST}-{last - N_VALID},valid={last - N_VALID + 1}-{last}"
    return hepdata.build_tracking(
        raw,
        work / f"dataset-{n_events}",
        events=f"{FIRST}-{last}",
        pairs="none",
        split=split,
        workers=workers,
    )


def train(name: str, work: Path, *, threads: int | None) -> hept.Run:
    """Train, or continue, one of the weights, and tune its reconstruction."""
    first, whole = (prepare(work, n, workers=threads or 1) for n in (N_FIRST, N_ALL))
    run = hept.fit(first, work / name, preset=WEIGHTS[name], threads=threads, progress=True)
    if name in MORE:
        run = hept.fit(
            whole,
            work / f"{name}-more",
            preset=WEIGHTS[name],
            settings=MORE[name],
            init=run,
            threads=threads,
            progress=True,
        )
    hept.tune_clustering(run, whole, threads=threads)
    return run


def keep(name: str, run: hept.Run, out: Path) -> None:
    """Copy weights and reconstruction, and write the card."""
    out.mkdir(exist_ok=True)
    shutil.copyfile(run.path / BEST, out / f"{name}.safetensors")
    shutil.copyfile(run.path / "clustering.json", out / f"{name}.clustering.json")
    (out / f"{name}.md").write_text(describe(name, run), encoding="utf-8")


def describe(name: str, run: hept.Run) -> str:
    """The card of a model."""
    trained, card = load_model(run.path), read_card(run.path / BEST)
    folder = RunFolder(run.path)
    description, rows = folder.read_description(), folder.read_rows("metrics")
    row = next(each for each in rows if int(each["epoch"]) == card.epoch)
    minutes = sum(float(each["seconds"]) for each in rows) / 60
    columns = ", ".join(f"`{entry.column}`" for entry in trained.features)
    n_trained = (N_ALL if name in MORE else N_FIRST) - N_VALID
    more = f", then again with {' '.join(MORE[name])}" if name in MORE else ""
    which = "last training" if name in MORE else "training"
    metrics = "\n".join(f"| {key} | {value:.4g} |" for key, value in sorted(card.metrics.items()))
    clustering = json.dumps(json.loads((run.path / "clustering.json").read_text()))
    return f"""# {name}

Embeddings of pixel hits of the TrackML detector, and a reconstruction of tracks from them:
`hept-data build tracking RAW EVENTS`, then `hept-train predict {name} EVENTS --out tracks.parquet`.

**Trained on simulated events only**: {n_trained} events of
`hept-data simulate tracking --engine acts` (Pythia tt̄ with soft collisions, ACTS Fatras; seed {SEED}, about
6,600 pixel hits each), {N_VALID} others to choose. Other detectors, other densities and real data need
training of their own; `hept-train fit --init {name}` starts from these weights.

- {count_parameters(trained.network):,} parameters, preset `{WEIGHTS[name]}`{more}, seed {run.config.seed};
  {row["step"]} steps in {minutes:.0f} minutes of the {which} with {description["threads"]} CPU thread(s)
- made by `python -m benchmarks.make_weights FOLDER`
- inputs: {columns}
- dataset fingerprint `{card.dataset}`, epoch {card.epoch}
- reconstruction, chosen on the validation events: `{clustering}`

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
