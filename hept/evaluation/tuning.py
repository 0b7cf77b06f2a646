"""Which clustering turns a model's embeddings into tracks best: tried out on the validation split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress, Silent
from hepdata.schema import Target
from hepdata.storage.atomic import write_atomically
from hept.checkpoint import TrainedModel
from hept.dataset_checks import check_labels, find_target
from hept.evaluation.clustering import Clustering, cluster
from hept.evaluation.evaluator import embed, open_split
from hept.evaluation.truth import list_truth
from hept.metrics.tracks import Rates, TrackMatch, match_tracks
from hept.pairs_objective import select_points

FILE = "clustering.json"
# Multiples of the median distance of a hit to the nearest hit of its own particle.
STEPS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
MIN_POINTS = (2, 3)
SMALLEST_TRACKS = (2, 3, 4)
PT_MIN = 0.9


@dataclass(frozen=True)
class Trial:
    """One clustering and what it finds: double-majority efficiency above 0.9 GeV, and the other rates."""

    clustering: Clustering
    efficiency: float
    rates: dict[str, float]


def tune_clustering(
    trained: TrainedModel,
    dataset: Dataset,
    split: str = "valid",
    *,
    max_clouds: int = 20,
    progress: Progress | None = None,
) -> list[Trial]:
    """Try clusterings on a split, the best first.

    Scales are taken from the embeddings themselves: DBSCAN's eps as multiples of the median distance
    between a hit and the nearest hit of its particle.

    Raises:
        InputError: Not a model that embeds, or the dataset does not fit.
    """
    if not trained.is_embedding:
        raise InputError(
            trained.source,
            found=f"a {trained.task} model, which classifies points",
            expected="a model whose embeddings are clustered",
            remedy="give a model trained on pairs, for instance on a tracking dataset",
        )
    target = find_target(dataset)
    check_labels(dataset, needs_pairs=False)
    loader = open_split(trained, dataset, split)
    clouds = [
        (out.double().cpu().numpy(), batch)
        for (out, batch), _ in zip(embed(trained.network, loader), range(max_clouds), strict=False)
    ]
    scale = _typical_distance(clouds, target)
    candidates = [
        Clustering("dbscan", float(step * scale), min_points) for step in STEPS for min_points in MIN_POINTS
    ]
    candidates += [Clustering("hdbscan", min_points=size) for size in SMALLEST_TRACKS]
    listener = progress or Silent()
    listener.start("clustering", len(candidates), "trial")
    trials = []
    for candidate in candidates:
        trials.append(_try(candidate, clouds, target))
        listener.advance(1, f"double majority {trials[-1].efficiency:.3f}")
    listener.finish()
    return sorted(trials, key=lambda trial: -trial.efficiency)


def find_tracks(
    embeddings: NDArray[np.floating], batch: Batch, target: Target, clustering: Clustering
) -> TrackMatch:
    """Cluster one cloud and compare with its particles."""
    return match_tracks(cluster(embeddings, **asdict(clustering)), *list_truth(batch, target))


def _try(candidate: Clustering, clouds: Iterable[tuple[NDArray[np.float64], Batch]], target: Target) -> Trial:
    rates = Rates(tuple(find_tracks(embeddings, batch, target, candidate) for embeddings, batch in clouds))
    summary = rates.summary(PT_MIN)
    return Trial(candidate, summary["efficiency_double_majority"], summary)


def _typical_distance(clouds: Sequence[tuple[NDArray[np.float64], Batch]], target: Target) -> float:
    nearest: list[float] = []
    for embeddings, batch in clouds:
        particle = batch.columns[target.label].cpu().numpy()
        wanted = select_points(batch, target, PT_MIN).cpu().numpy()
        for label in np.unique(particle[wanted]):
            hits = embeddings[particle == label]
            distance = np.linalg.norm(hits[:, None] - hits, axis=2)
            np.fill_diagonal(distance, np.inf)
            nearest += distance.min(1).tolist() if len(hits) > 1 else []
    typical = float(np.median(nearest)) if nearest else 0.0
    return typical if typical > 0 else 0.1


def save_clustering(run: Path, clustering: Clustering) -> None:
    """Keep the choice in the run folder."""
    with write_atomically(run / FILE) as file:
        file.write((json.dumps(asdict(clustering), indent=2) + "\n").encode())


def load_clustering(run: Path) -> Clustering | None:
    """The run's choice, or None where none was made.

    Raises:
        InputError: The file is damaged.
    """
    path = run / FILE
    if not path.exists():
        return None
    try:
        return Clustering(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            path,
            found=f"a damaged file ({error})",
            expected="method, eps and min_points",
            remedy="run hept-train tune-clustering again",
        ) from error
