"""Choose the clustering that turns a model's embeddings into tracks best, on the validation split."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress, Silent
from hepdata.schema import SCORED_PT, Target
from hepdata.storage.atomic import write_atomically
from hept.evaluation.clustering import Clustering, cluster
from hept.evaluation.inference import Answer, run_model
from hept.evaluation.truth import Truth, list_truth
from hept.metrics.tracks import Rates, match_tracks
from hept.model.dataset_checks import check_labels, find_target
from hept.model.trained import TrainedModel

FILE = "clustering.json"
# Multiples of the median distance of a hit to the nearest hit of its own particle.
STEPS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
MIN_POINTS = (2, 3)
SMALLEST_TRACKS = (2, 3, 4)

# Embeddings of a cloud (N, D), and what its particles are.
_Cloud = tuple[NDArray[np.float64], Truth]


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
    check_labels(dataset, needs_pairs=False)
    answers = run_model(trained, dataset, split, max_clouds=max_clouds, progress=progress)
    return try_clusterings(answers, find_target(dataset), progress=progress)


def try_clusterings(
    answers: Iterable[Answer], target: Target, *, progress: Progress | None = None
) -> list[Trial]:
    """Try clusterings on the outputs of a model that embeds, the best first."""
    clouds = [(out.cpu().double().numpy(), list_truth(batch, target)) for out, batch in answers]
    scale = _typical_distance(clouds)
    candidates = [
        Clustering("dbscan", float(step * scale), min_points) for step in STEPS for min_points in MIN_POINTS
    ]
    candidates += [Clustering("hdbscan", min_points=size) for size in SMALLEST_TRACKS]
    listener = progress or Silent()
    listener.start("clustering", len(candidates), "trial")
    trials = []
    for candidate in candidates:
        trials.append(_try(candidate, clouds))
        listener.advance(1, f"double majority {trials[-1].efficiency:.3f}")
    listener.finish()
    return sorted(trials, key=lambda trial: -trial.efficiency)


def _try(candidate: Clustering, clouds: Iterable[_Cloud]) -> Trial:
    rates = Rates(tuple(match_tracks(cluster(x, **asdict(candidate)), *truth) for x, truth in clouds))
    summary = rates.summary(SCORED_PT)
    return Trial(candidate, summary["efficiency_double_majority"], summary)


def _typical_distance(clouds: Iterable[_Cloud]) -> float:
    """The median distance of a hit above 0.9 GeV to the nearest hit of its particle."""
    nearest: list[float] = []
    for embeddings, (particle, pt, _, counts) in clouds:
        for label in np.unique(particle[counts & (pt > SCORED_PT)]):
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
