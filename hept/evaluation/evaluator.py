"""How good a trained model is on a split: clouds enter, figures of merit, tracks and curves leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset, DatasetLike, open_dataset
from hepdata.loader.stream import Loader
from hepdata.progress import Progress
from hept.devices.choice import Precision
from hept.evaluation.inference import Account, Answer, run_model, run_network, take_in
from hept.evaluation.pair_curve import PairCurve
from hept.evaluation.reconstruction import TrackFinder
from hept.metrics.classification import Classification
from hept.metrics.cleaning import Cleaning
from hept.metrics.resolution import Residuals
from hept.metrics.track_score import TrackScore
from hept.model.dataset_checks import check_labels, find_target
from hept.model.trained import ModelLike, TrainedModel
from hept.model.weights import load_model
from hept.objectives.classification import ClassificationScores
from hept.objectives.objective import Objective, Scores, make_objective
from hept.tracks.finder import Clustering


@dataclass(frozen=True)
class Assessment:
    """Results of one pass of a model over a split.

    Attributes:
        metrics: Figures of merit by name.
        tracks: Tracks that were found; None without a clustering.
        curves: Precision against recall of the "model". Where it classifies, the area is `metrics["auc"]`.
        events: The first clouds with their outputs, on the host.
        cleaning: Jets, missing pT and particles of pileup mitigation; None for other tasks.
        residuals: Of the helices of matched tracks; None without tracks, or where true helices are not known.
    """

    metrics: dict[str, float]
    tracks: TrackScore | None
    curves: dict[str, Classification]
    events: tuple[Answer, ...]
    cleaning: Cleaning | None = None
    residuals: Residuals | None = None


def evaluate(
    model: ModelLike,
    dataset: DatasetLike,
    split: str = "test",
    *,
    clustering: Clustering | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Figures of merit of a model on a split, of tracks only with a clustering; see `hept.evaluate`."""
    trained, opened = load_model(model), open_dataset(dataset)
    answers = run_for_metrics(trained, opened, split, progress=progress)
    return assess(trained, opened, answers, clustering=clustering).metrics


def run_for_metrics(
    trained: TrainedModel, dataset: Dataset, split: str, *, progress: Progress | None = None
) -> Iterator[Answer]:
    """The pass over a split whose answers `assess` takes in.

    Raises:
        InputError: Model and dataset do not fit, the split is empty, or the dataset has no labels.
    """
    check_labels(dataset, needs_pairs=False)
    return run_model(trained, dataset, split, pairs=dataset.manifest.has_pairs, progress=progress)


def assess(
    trained: TrainedModel,
    dataset: Dataset,
    answers: Iterable[Answer],
    *,
    clustering: Clustering | None = None,
    n_clouds_in_curve: int = 0,
    n_events: int = 0,
    only_metric: bool = False,
) -> Assessment:
    """Metrics, tracks and curves of a model's outputs, in one pass over them.

    Args:
        trained: The model.
        dataset: Whose clouds the answers are for.
        answers: See `run_for_metrics`.
        clustering: How embeddings become tracks; without it tracks are not looked for.
        n_clouds_in_curve: Clouds that the curve of a model that embeds is made from; 0 makes none.
        n_events: Clouds to keep with their outputs.
        only_metric: Whether only the metric that chooses the best epoch is wanted, beside the loss.
    """
    target = find_target(dataset)
    scores = SplitScores(make_objective(target, trained.config.loss, only_metric=only_metric))
    if isinstance(scores.scores, ClassificationScores):
        scores.scores.calibration = trained.calibration
    tracks = TrackFinder(target, clustering) if trained.is_embedding and clustering else None
    pairs = PairCurve(target, n_clouds_in_curve) if trained.is_embedding and n_clouds_in_curve else None
    events = _FirstEvents(n_events)
    accounts: list[Account | None] = [scores, tracks, pairs, events]
    take_in(answers, [account for account in accounts if account is not None])
    metrics, found = scores.result(), tracks.result() if tracks else None
    return Assessment(
        metrics | (found.summary() if found else {}),
        found,
        {"model": pairs.result()} if pairs else _list_curves(scores.scores),
        tuple(events.answers),
        _find_cleaning(scores.scores),
        Residuals.join(tracks.residuals) if tracks and tracks.residuals else None,
    )


def score_split(
    network: nn.Module,
    loader: Loader,
    objective: Objective,
    *,
    precision: Precision = "32-true",
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Loss and metrics over a loader's clouds, in evaluation mode; see `run_network`.

    Where the model classifies, also the map from its logits to calibrated probabilities.
    """
    scores = SplitScores(objective)
    answers = run_network(network, loader, precision=precision, device=device, progress=progress)
    take_in(answers, [scores])
    calibration = scores.scores.calibrate() if isinstance(scores.scores, ClassificationScores) else {}
    return scores.result() | calibration


@dataclass
class SplitScores:
    """Loss, figures of merit and number of clouds of a split."""

    objective: Objective

    def __post_init__(self) -> None:
        self.scores: Scores = self.objective.scores()
        self._losses: list[Tensor] = []
        self._n_clouds = 0

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one batch; without pair lists, an objective that needs them has no loss."""
        has_truth = batch.positives is not None or not self.objective.needs_pairs
        if has_truth and self.objective.count(batch):
            self._losses.append(self.objective.loss(out, batch, normaliser=None, generator=None).detach())
        self.scores.add(out, batch)
        self._n_clouds += batch.n_clouds

    def result(self) -> dict[str, float]:
        """The figures so far; the loss is the mean over batches."""
        losses = [float(loss) for loss in self._losses]
        loss = sum(losses) / len(losses) if losses else float("nan")
        return {"loss": loss, **self.scores.result(), "n_clouds": float(self._n_clouds)}


@dataclass
class _FirstEvents:
    n_events: int
    answers: list[Answer] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        if len(self.answers) < self.n_events:
            self.answers.append((out.cpu(), batch.to("cpu")))


def _list_curves(scores: Scores) -> dict[str, Classification]:
    """The curves behind the areas among the figures of merit."""
    if not isinstance(scores, ClassificationScores):
        return {}
    return {"model": scores.pooled()}


def _find_cleaning(scores: Scores) -> Cleaning | None:
    figures = scores.figures if isinstance(scores, ClassificationScores) else []
    return next((figure for figure in figures if isinstance(figure, Cleaning)), None)
