"""Tracks of a whole split: outputs and a clustering enter, figures of merit leave."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.evaluation.truth import list_truth, read_columns
from hept.metrics.resolution import Residuals
from hept.metrics.track_score import TrackScore
from hept.metrics.tracks import MIN_HITS, TrackMatch, match_labels
from hept.tracks.finder import Clustering, find_tracks
from hept.tracks.table import fit_tracks


@dataclass
class TrackFinder:
    """Finds the tracks of every cloud, fits them, and compares them with the particles."""

    target: Target
    clustering: Clustering
    matches: list[TrackMatch] = field(default_factory=list)
    residuals: list[Residuals] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one cloud."""
        columns = read_columns(batch)
        label = find_tracks(out.cpu().double().numpy(), columns, self.clustering)
        match = match_labels(label, list_truth(columns, self.target))
        self.matches.append(match)
        fits = fit_tracks(label, columns, self.clustering.steps.error)
        if fits is not None:
            is_track = np.asarray(fits["n_hits"], np.int64) >= MIN_HITS
            found = Residuals.compare({name: values[is_track] for name, values in fits.items()}, match)
            self.residuals += [] if found is None else [found]

    def result(self) -> TrackScore:
        """What was found in all clouds."""
        return TrackScore(tuple(self.matches))
