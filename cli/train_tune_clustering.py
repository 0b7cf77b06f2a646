"""`hept-train tune-clustering`: choose how embeddings become tracks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hept
from hept.runs.folder import find_weights

from .command_line import model_options, write_json
from .printing import console, print_table

if TYPE_CHECKING:
    from hept.evaluation.tuning import Trial


# Figures of merit by the heads of their columns.
_SHOWN = {
    "efficiency_double_majority": "double majority",
    "efficiency_lhc": "LHC",
    "efficiency_perfect": "perfect",
    "fake_rate": "fakes",
    "fake_rate_target": "fakes of targets",
    "fake_rate_impure": "below 75 %",
    "duplicate_rate": "duplicates",
    "trackml_score": "TrackML score",
}
# Those of every step, which fit into 80 columns; --json has all.
_SHOWN_OF_STEPS = ("efficiency_double_majority", "fake_rate", "duplicate_rate", "trackml_score")


@click.command("tune-clustering")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--split", default="valid", show_default=True, help="Split to try on.")
@click.option("--max-clouds", default=20, show_default=True, type=click.IntRange(1), help="Clouds to try on.")
@model_options
def command(run: Path, dataset: str | None, json_path: Path | None, **arguments: Any) -> None:
    """Try how embeddings of RUN (or of a weights file) become tracks, and keep the best.

    The best on the validation split by efficiency × purity × purity of targets: the part of particles above
    0.9 GeV that are found (double majority), times the part of all tracks that match a particle, times the
    same part of the tracks of particles above 0.9 GeV. The tree is tried with its steps; DBSCAN and HDBSCAN
    for comparison. The choice is kept in the run folder, or beside the weights.

    \b
    Example:
      hept-train tune-clustering runs/a
    """
    trials = hept.tune_clustering(run, dataset, **arguments, progress=True)
    best = _best_of_each(trials)
    rows = [
        ("efficiency × purities", *(trial.criterion for trial in best)),
        *((head, *(trial.rates[name] for trial in best)) for name, head in _SHOWN.items()),
    ]
    header = ("", *(trial.clustering.name for trial in best))
    print_table("The best three trees, and the best of the other methods", header, rows)
    if trials[0].steps:
        steps = [(name, *(after[key] for key in _SHOWN_OF_STEPS)) for name, after in trials[0].steps.items()]
        heads = (_SHOWN[key] for key in _SHOWN_OF_STEPS)
        print_table("The first, step by step", ("after", *heads), steps)
    write_json(json_path, [asdict(trial) for trial in trials])
    # Imported after the work: torch takes seconds.
    from hept.evaluation.tuning import name_file

    kept = name_file(find_weights(run))
    console.print(
        f"The first is kept in {kept}: eval, predict and report use it.", highlight=False, soft_wrap=True
    )


def _best_of_each(trials: list[Trial]) -> list[Trial]:
    trees = [trial for trial in trials if trial.clustering.method == "tree"][:3]
    others = [
        [trial for trial in trials if trial.clustering.method == name][:1] for name in ("dbscan", "hdbscan")
    ]
    return [*trees, *(trial for best in others for trial in best)]
