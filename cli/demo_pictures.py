"""The demo's pictures as PNG files: the results of a run enter, as its report shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hepdata.loader.dataset import Dataset
from hepdata.pictures.canvas import new_figure, save_figure
from hepdata.pictures.panels import draw_groups, draw_pileup
from hept.evaluation.inference import Answer
from hept.model.dataset_checks import find_target
from hept.objectives.objective import make_objective
from hept.report.figures import draw_curves, draw_quality
from hept.report.results import Results
from hept.report.write import draw_event, name_curve
from hept.runs.folder import RunFolder

_SHOWN_PT = 0.5


def draw_demo(folder: Path, dataset: Dataset, results: Results, run: Path) -> list[Path]:
    """Draw an event, the training and the curves of one task; returns the files written."""
    trained, target, answer = results.trained, find_target(dataset), results.after.events[0]
    rows, metric = RunFolder(run).read_rows("metrics"), make_objective(target, trained.config.loss).metric
    title = f"{trained.task}: {name_curve(target, trained)}, test split"
    figures = {
        "event-grouped" if trained.is_embedding else "event-scored": draw_event(results, answer, target),
        "loss": draw_curves(rows, metric),
        "precision-recall": draw_quality(results.curves, title),
    }
    draw_truth = _draw_particles if trained.is_embedding else _draw_collisions
    paths = [draw_truth(folder, answer)]
    return paths + [
        save_figure(figure, folder / f"{trained.task}-{name}.png") for name, figure in figures.items()
    ]


def _draw_particles(folder: Path, answer: Answer) -> Path:
    columns = answer[1].columns
    eta, phi, pt, particle = (columns[name].numpy() for name in ("eta", "phi", "pt", "particle_id"))
    figure, (panel,) = new_figure()
    # Soft particles are too many to tell apart by eye.
    truth = np.where(pt > _SHOWN_PT, particle, 0)
    draw_groups(panel, eta, phi, truth, title=f"raw event, coloured by particle (pT > {_SHOWN_PT} GeV)")
    return save_figure(figure, folder / "tracking-event-truth.png")


def _draw_collisions(folder: Path, answer: Answer) -> Path:
    columns = answer[1].columns
    eta, phi, pt, is_leading = (columns[name].numpy() for name in ("eta", "phi", "pt", "is_leading"))
    figure, (panel,) = new_figure()
    title = "raw event: leading collision in red, pileup in blue"
    draw_pileup(panel, eta, phi, pt, is_leading.astype(float), title=title)
    return save_figure(figure, folder / "pileup-event-truth.png")
