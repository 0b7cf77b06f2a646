"""Tracks of a whole split: outputs and a clustering enter, figures of merit leave."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.evaluation.truth import list_truth, read_columns
from hept.metrics.track_score import TrackScore
from hept.metrics.tracks import TrackMatch, match_labels
from hept.tracks.finder import Clustering, find_tracks


@dataclass
class TrackFinder:
    """Finds the tracks of every cloud and compares them with the particles."""

    target: Target
    clustering: Clustering
    matches: list[TrackMatch] = field(default_factory=list)

    def add(self, out: Tensor, batch: Batch) -> None:
        """Take in one cloud."""
        columns = read_columns(batch)
        label = find_tracks(out.cpu().double().numpy(), columns, self.clustering)
        self.matches.append(match_labels(label, list_truth(columns, self.target)))

    def result(self) -> TrackScore:
        """What was found in all clouds."""
        return TrackScore(tuple(self.matches))
