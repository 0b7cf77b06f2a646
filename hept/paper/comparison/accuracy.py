"""Train a system, or continue its training, and score it on the test split."""

from __future__ import annotations

from pathlib import Path

import torch

from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hept.evaluation.evaluator import evaluate
from hept.model.build import build_network
from hept.model.trained import TrainedModel
from hept.model.weights import load_model
from hept.objectives.objective import make_objective
from hept.paper.comparison.store import Result
from hept.paper.comparison.trainings import PlannedTraining
from hept.runs.folder import has_states
from hept.runs.training_data import open_training_data
from hept.training.trainer import fit


class Interrupted(Exception):
    """The user stopped a training; its state is saved."""


def score_trial(
    trial: PlannedTraining, dataset: Dataset, run: Path, device: str, progress: Progress
) -> Result:
    """Train in the folder `run` and score the best epoch; the random baseline is not trained.

    Raises:
        Interrupted: The user stopped the training.
        JobError: The training diverged.
    """
    location = dataset.root.location
    if trial.config.model.kind == "random":
        return _score_untrained(trial, dataset, device, progress)
    is_begun = has_states(run)
    # All systems use the same number of threads; a resumed training keeps its own.
    threads = None if is_begun else torch.get_num_threads()
    fitted = fit(
        trial.config, location, run, progress=progress, resume=is_begun, device=device, threads=threads
    )
    if fitted.stopped == "interrupted":
        raise Interrupted
    scores = evaluate(load_model(run).on(device), dataset, "test", progress=progress)
    return scores | {
        "epochs": float(fitted.epochs),
        "best_epoch": float(fitted.best_epoch or 0),
        "fit_seconds": fitted.seconds,
    }


def _score_untrained(trial: PlannedTraining, dataset: Dataset, device: str, progress: Progress) -> Result:
    config = trial.config
    data = open_training_data(config, dataset.root.location)
    torch.manual_seed(config.seed)
    objective = make_objective(data.target, config.loss)
    network = build_network(config.model, data.features, data.coords, is_embedding=objective.is_embedding)
    model = TrainedModel(
        network, config.task, data.target.objective, data.features, data.coords, config, "random"
    )
    return evaluate(model.on(device), dataset, "test", progress=progress) | {"epochs": 0.0}
