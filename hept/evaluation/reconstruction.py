"""Tracks of a whole split: a model and a clustering enter, efficiencies and the TrackML score leave."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress
from hept.evaluation.clustering import Clustering, cluster
from hept.evaluation.evaluator import embed, open_split
from hept.evaluation.truth import list_truth
from hept.metrics.tracks import Rates, match_tracks, trackml_score
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel

PT_MIN = 0.9


@dataclass(frozen=True)
class Reconstruction:
    """What was found on a split.

    Attributes:
        rates: Efficiencies, fakes and duplicates.
        score: TrackML score, mean over clouds, each hit of a particle with the same weight (the challenge's
            own weights are not part of a dataset).
    """

    rates: Rates
    score: float

    def summary(self) -> dict[str, float]:
        """One number each: efficiencies for particles above 0.9 GeV, rates over all tracks."""
        return self.rates.summary(PT_MIN) | {"trackml_score": self.score}


def reconstruct(
    trained: TrainedModel,
    dataset: Dataset,
    split: str,
    clustering: Clustering,
    *,
    progress: Progress | None = None,
) -> Reconstruction:
    """Find the tracks of every cloud of a split and compare them with the particles.

    Raises:
        InputError: Model and dataset do not fit.
    """
    target = find_target(dataset)
    matches, scores = [], []
    for out, batch in embed(trained.network, open_split(trained, dataset, split), progress=progress):
        track = cluster(out.double().cpu().numpy(), **asdict(clustering))
        truth = list_truth(batch, target)
        matches.append(match_tracks(track, *truth))
        particle = truth[0]
        scores.append(trackml_score(track, particle, (particle != 0).astype(np.float64)))
    # Events of noise only have no score.
    known = [score for score in scores if not np.isnan(score)]
    return Reconstruction(Rates(tuple(matches)), float(np.mean(known)) if known else float("nan"))
