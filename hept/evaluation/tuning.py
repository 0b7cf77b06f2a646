"""Choose the way in which a model's embeddings become tracks best, on the validation split.

The criterion is efficiency × purity × purity of targets: the part of particles above 0.9 GeV that are found
(double majority), times the part of all tracks that match a particle, times the same part of the tracks whose
majority particle is one of those above 0.9 GeV.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from hepdata.errors import InputError
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress, Silent, counting
from hepdata.schema import SCORED_PT, Target
from hepdata.storage.atomic import write_atomically
from hept.evaluation.inference import Answer, run_model
from hept.evaluation.truth import list_truth, read_columns
from hept.metrics.track_score import TrackScore
from hept.metrics.tracks import EventTruth, TrackMatch, match_labels
from hept.model.dataset_checks import check_labels, find_target
from hept.model.trained import TrainedModel
from hept.tracks.finder import Clustering, Method, find_tracks, locate, number_modules
from hept.tracks.helix import HitError, fit_helices

FILE = "clustering.json"
TUNING_SPLIT = "valid"
# Clouds used when the clustering is tuned without being asked for.
FEW = 3
# Multiples of the median distance of a hit to the nearest hit of its own particle.
STEPS = (0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
CUTS = (4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
MIN_POINTS = (2, 3)
SMALLEST_TRACKS = (2, 3, 4)
# Hits to tune on: more would hardly change the choice and take much longer.
MAX_HITS = 60_000


@dataclass(frozen=True)
class _Cloud:
    """Embeddings of a cloud (N, D), its columns, and what its particles are."""

    embeddings: NDArray[np.float64]
    columns: dict[str, NDArray[Any]]
    truth: EventTruth


@dataclass(frozen=True)
class Trial:
    """One clustering and what it finds.

    Attributes:
        clustering: The choice.
        criterion: Efficiency times both purities, see the module.
        efficiency: Double majority above 0.9 GeV.
        rates: The other figures of merit.
        steps: The figures after each step of the tree, by its name; empty for the others.
    """

    clustering: Clustering
    criterion: float
    efficiency: float
    rates: dict[str, float]
    steps: dict[str, dict[str, float]]


def tune_clustering(
    trained: TrainedModel,
    dataset: Dataset,
    split: str = TUNING_SPLIT,
    *,
    max_clouds: int = 20,
    progress: Progress | None = None,
) -> list[Trial]:
    """Try clusterings on a split, the best first; see `hept.tune_clustering`.

    Scales are taken from the embeddings themselves: DBSCAN's eps as multiples of the median distance
    between a hit and the nearest hit of its particle.
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
    """Try clusterings on the outputs of a model that embeds, the best first.

    The cut of the tree is chosen first, then the number of passes and the other parameters one after another,
    each at the best of those before it.
    """
    clouds = _take_clouds(answers, target)
    scale = _typical_distance(clouds)
    others = [Clustering("dbscan", float(step * scale), size) for step in STEPS for size in MIN_POINTS]
    others += [Clustering("hdbscan", min_points=size) for size in SMALLEST_TRACKS]
    listener = progress or Silent()
    trials: list[Trial] = []

    def attempt(candidate: Clustering) -> Trial:
        trials.append(_try(candidate, clouds))
        listener.advance(1, f"efficiency × purities {trials[-1].criterion:.3f}")
        return trials[-1]

    n_trials = len(others) + len(CUTS) + len(_CHANGES)
    with counting(listener, "clustering", n_trials, "trial"):
        for other in others:
            attempt(other)
        # Where the tree is chosen, programs without it fall back on the best DBSCAN.
        flat = max(trials[: len(STEPS) * len(MIN_POINTS)], key=_rank).clustering
        start = Clustering("tree", flat.eps, flat.min_points)
        start = replace(start, steps=replace(start.steps, error=_fit_error(clouds)))
        trees = [attempt(replace(start, tree=replace(start.tree, cut=float(c * scale)))) for c in CUTS]
        best = max(trees, key=_rank)
        for part, change in _CHANGES:
            changed = replace(getattr(best.clustering, part), **change)
            best = max(best, attempt(replace(best.clustering, **{part: changed})), key=_rank)
    return sorted(trials, key=_rank, reverse=True)


# Parameters that are varied at the best cut, in this order.
_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("steps", {"passes": 2}),
    ("steps", {"passes": 4, "widen": 1.2}),
    ("tree", {"shared": 1.0}),
    ("steps", {"quality": 30.0}),
    ("steps", {"quality": None}),
    ("steps", {"merge": 60.0}),
    ("steps", {"add": 40.0}),
    ("steps", {"add": 80.0}),
    ("steps", {"reach": 8.0}),
)


def _rank(trial: Trial) -> tuple[float, float]:
    """By the criterion; where no particle is above the threshold, by the purity."""
    return np.nan_to_num(trial.criterion, nan=-1.0), -np.nan_to_num(trial.rates["fake_rate"], nan=1.0)


def _take_clouds(answers: Iterable[Answer], target: Target) -> list[_Cloud]:
    clouds: list[_Cloud] = []
    for out, batch in answers:
        if sum(len(cloud.embeddings) for cloud in clouds) >= MAX_HITS:
            break
        columns = read_columns(batch)
        clouds.append(_Cloud(out.cpu().double().numpy(), columns, list_truth(columns, target)))
    return clouds


def _try(candidate: Clustering, clouds: Iterable[_Cloud]) -> Trial:
    found: list[TrackMatch] = []
    after: dict[str, list[TrackMatch]] = {}
    for cloud in clouds:

        def watch(step: str, label: NDArray[np.int64], truth: EventTruth = cloud.truth) -> None:
            after.setdefault(step, []).append(match_labels(label, truth))

        label = find_tracks(cloud.embeddings, cloud.columns, candidate, watch)
        found.append(match_labels(label, cloud.truth))
    rates = TrackScore(tuple(found)).summary()
    efficiency = rates["efficiency_double_majority"]
    # Without tracks, the efficiency is 0 and there are no fake rates.
    purity = np.prod([1 - np.nan_to_num(rates[name], nan=0.0) for name in ("fake_rate", "fake_rate_target")])
    steps = {name: TrackScore(tuple(matches)).summary() for name, matches in after.items()}
    return Trial(candidate, float(efficiency * purity), efficiency, rates, steps)


def _typical_distance(clouds: Iterable[_Cloud]) -> float:
    """The median distance of a hit above 0.9 GeV to the nearest hit of its particle."""
    nearest: list[float] = []
    for cloud in clouds:
        truth = cloud.truth
        for label in np.unique(truth.particle[truth.can_be_found & (truth.properties["pt"] > SCORED_PT)]):
            hits = cloud.embeddings[truth.particle == label]
            distance = np.linalg.norm(hits[:, None] - hits, axis=2)
            np.fill_diagonal(distance, np.inf)
            nearest += distance.min(1).tolist() if len(hits) > 1 else []
    typical = float(np.median(nearest)) if nearest else 0.0
    return typical if typical > 0 else 0.1


def _fit_error(clouds: Iterable[_Cloud]) -> HitError:
    """The error of a hit from the residuals of true tracks: their median χ² in bins of pT.

    Tracks of five and more hits; the default where there are too few.
    """
    rows = []
    for cloud in clouds:
        places = locate(
            cloud.embeddings, cloud.columns, number_modules(cloud.columns, len(cloud.embeddings))[1]
        )
        if places is None:
            return HitError()
        particles, owner = np.unique(cloud.truth.particle, return_inverse=True)
        fitted = fit_helices(owner, places.x, places.y, places.z, len(particles), error=HitError(1.0, 0.0))
        chosen = (particles != 0) & (fitted.n_hits >= 5) & np.isfinite(fitted.chi2)
        rows.append(np.stack([fitted.pt(), fitted.quality], 1)[chosen])
    pt, square = np.concatenate(rows).T if rows else np.zeros((2, 0))
    n_bins = min(len(pt) // 20, 12)
    if n_bins < 3:
        return HitError()
    parts = np.array_split(np.argsort(pt, kind="stable"), n_bins)
    # Relative deviations, since the bins differ by orders of magnitude.
    medians = np.array([np.median(square[part]) for part in parts])
    arms = np.array([(1.0, 1 / np.median(pt[part]) ** 2) for part in parts])
    usable = medians > 0
    (point, scattering), _ = nnls(arms[usable] / medians[usable, None], np.ones(int(usable.sum())))
    return HitError(float(np.sqrt(point)), float(np.sqrt(scattering))) if point + scattering else HitError()


def choose_clustering(
    trained: TrainedModel,
    dataset: Dataset | None,
    *,
    method: Method | None = None,
    eps: float | None = None,
    min_points: int | None = None,
    progress: Progress,
) -> Clustering:
    """What is given; else what was tuned for the model; else what a few clouds of the validation split say.

    Without a labelled validation split the tree finds its scale in the embeddings. Whatever was not tuned
    before is said in one line.
    """
    tuned = load_clustering(Path(trained.source))
    if tuned is None and trained.is_embedding and method is None and eps is None and min_points is None:
        if dataset is not None and _can_tune(dataset):
            progress.announce(
                f"note: no reconstruction was tuned for this model; tuning on {FEW} clouds of the split "
                f"{TUNING_SPLIT!r} (hept-train tune-clustering keeps the choice)"
            )
            return tune_clustering(trained, dataset, max_clouds=FEW, progress=progress)[0].clustering
        progress.announce(
            "note: no reconstruction was tuned for this model; the tree takes its scale from the embeddings. "
            "Tune it with hept-train tune-clustering on events with truth"
        )
    before = tuned or Clustering()
    if method is None and (eps is not None or min_points is not None) and before.method == "tree":
        method = "dbscan"
    return replace(
        before,
        method=method or before.method,
        eps=before.eps if eps is None else eps,
        min_points=min_points or before.min_points,
    )


def _can_tune(dataset: Dataset) -> bool:
    target = dataset.schema.target
    is_labelled = target is not None and dataset.schema.has_column(target.label)
    return is_labelled and TUNING_SPLIT in dataset.splits and len(dataset[TUNING_SPLIT]) > 0


def name_file(model: Path) -> Path:
    """Where the choice for a run folder or a weights file is kept: in the folder, or beside the file."""
    if model.is_dir():
        return model / FILE
    if (model.parent / "run.json").exists() or (model.parent / FILE).exists():
        return model.parent / FILE
    return model.with_suffix(f".{FILE}")


def save_clustering(model: Path, clustering: Clustering) -> Path:
    """Keep the choice in the run folder or beside the weights file; return where."""
    path = name_file(model)
    with write_atomically(path) as file:
        file.write((json.dumps(asdict(clustering), indent=2) + "\n").encode())
    return path


def load_clustering(model: Path) -> Clustering | None:
    """The choice for a run folder or a weights file, or None where none was made.

    Raises:
        InputError: The file is damaged.
    """
    path = name_file(model)
    if not path.exists():
        return None
    try:
        return Clustering.parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            path,
            found=f"a damaged file ({error})",
            expected="the choice of hept-train tune-clustering",
            remedy="run hept-train tune-clustering again",
        ) from error
