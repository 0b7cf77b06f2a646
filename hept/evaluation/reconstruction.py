"""Tracks of a whole split: outputs and a clustering enter, efficiencies and the TrackML score leave."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.schema import SCORED_PT, Target
from hept.evaluation.clustering import Clustering, cluster
from hept.evaluation.truth import list_truth
from hept.metrics.tracks import Rates, TrackMatch, match_tracks, trackml_score


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
        return self.rates.summary(SCORED_PT) | {"trackml_score": self.score}


@dataclass
class TrackFinder:
    """Finds the tracks of every cloud and compares them with the particles."""

    target: Target
    clustering: Clustering
    matches: list[TrackMatch] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one cloud."""
        track = cluster(out.cpu().double().numpy(), **asdict(self.clustering))
        truth = list_truth(batch, self.target)
        self.matches.append(match_tracks(track, *truth))
        particle = truth[0]
        self.scores.append(trackml_score(track, particle, (particle != 0).astype(np.float64)))

    def result(self) -> Reconstruction:
        """Rates over all clouds, and the mean of the scores."""
        # Events of noise only have no score.
        known = [score for score in self.scores if not np.isnan(score)]
        return Reconstruction(Rates(tuple(self.matches)), float(np.mean(known)) if known else float("nan"))
