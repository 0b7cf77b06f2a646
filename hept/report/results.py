"""The results of a run that report and pictures show: both read the numbers of this one pass."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hept.evaluation.evaluator import Assessment, assess, run_for_metrics
from hept.evaluation.tuning import (
    TUNING_SPLIT,
    load_clustering,
    save_clustering,
    try_clusterings,
    tune_clustering,
)
from hept.metrics.classification import Classification
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel, forget_training
from hept.tracks.finder import Clustering


@dataclass(frozen=True)
class Results:
    """Results of a run before and after training.

    Attributes:
        trained: The model.
        after: What it tells of the split.
        before: The same of the network with newly drawn weights: only loss, headline figure and curve.
        clustering: How embeddings become tracks.
    """

    trained: TrainedModel
    after: Assessment
    before: Assessment
    clustering: Clustering

    @property
    def curves(self) -> dict[str, Classification]:
        """Precision against recall: before and after training, and of a baseline where there is one."""
        baselines = {name: curve for name, curve in self.after.curves.items() if name != "model"}
        models = {"untrained": self.before, "trained": self.after}
        return {
            name: one.curves["model"] for name, one in models.items() if "model" in one.curves
        } | baselines


def collect_results(
    trained: TrainedModel,
    run: Path,
    dataset: Dataset,
    split: str,
    *,
    n_events: int = 2,
    tune_clouds: int = 0,
    progress: Progress | None = None,
) -> Results:
    """Run a model once over a split, and once the same network without its training.

    Args:
        trained: The model of the run.
        run: The run folder, where the choice of a clustering is kept.
        dataset: What to evaluate on.
        split: Which part of it.
        n_events: Events to keep for pictures.
        tune_clouds: Clouds of the validation split on which the clustering is chosen first; 0 takes what was
            chosen before.
        progress: Listener.

    Raises:
        InputError: Model and dataset do not fit, or the split is empty.
    """
    n_clouds = len(dataset[split])
    answers = run_for_metrics(trained, dataset, split, progress=progress)
    if tune_clouds and trained.is_embedding:
        if split == TUNING_SPLIT:
            # One pass serves both: the clouds of the tuning are passed to the accounts first.
            first = list(islice(answers, tune_clouds))
            trials = try_clusterings(first, find_target(dataset))
            answers = chain(first, answers)
        else:
            trials = tune_clustering(
                trained, dataset, TUNING_SPLIT, max_clouds=tune_clouds, progress=progress
            )
        save_clustering(run, trials[0].clustering)
    clustering = load_clustering(run) or Clustering()
    after = assess(
        trained, dataset, answers, clustering=clustering, n_clouds_in_curve=n_clouds, n_events=n_events
    )
    untrained = forget_training(trained, seed=trained.config.seed)
    before = assess(
        untrained,
        dataset,
        run_for_metrics(untrained, dataset, split, progress=progress),
        n_clouds_in_curve=n_clouds,
        only_metric=True,
    )
    return Results(trained, after, before, clustering)
