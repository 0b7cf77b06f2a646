"""Score the tracks of any tracker: tracks and a dataset with truth enter, figures of merit leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError
from hepdata.features.labels import count_hits
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress, Silent, counting
from hept.evaluation.truth import list_truth
from hept.metrics.binned_rate import BinnedRate
from hept.metrics.track_score import TrackScore
from hept.metrics.tracks import TargetCuts, match_tracks
from hept.model.dataset_checks import check_labels, check_split, find_target
from hept.tracks.files import read_tracks

# Properties of particles that rates are shown against.
PROPERTIES = {"pt": "pT [GeV]", "eta": "η", "density": "hits within 0.1 in (η, φ)", "origin": "origin [mm]"}
# Edges of bins by property; those of the density are quantiles.
EDGES: dict[str, NDArray[np.float64]] = {
    "pt": np.array([0.0, 0.3, 0.5, 0.9, 1.3, 2.0, 3.0, 5.0, 10.0]),
    "eta": np.linspace(-4, 4, 17),
    "origin": np.array([0.0, 1.0, 10, 30, 60, 100, 200, 400]),
}


@dataclass(frozen=True)
class Scored:
    """Tracks against truth.

    Attributes:
        score: Figures of merit, and rates in bins.
        n_events: Events of the split.
        n_without_tracks: Events of the split that the file does not have; nothing is found in them.
        n_other_events: Events of the file that the split does not have; they are not counted.
        n_unknown_hits: Hits of tracks that the dataset does not have, as those of other layers; not counted.
    """

    score: TrackScore
    n_events: int
    n_without_tracks: int
    n_other_events: int
    n_unknown_hits: int

    def bins(self) -> dict[str, tuple[NDArray[np.float64], dict[str, BinnedRate]]]:
        """Edges and rates by property, of all that the dataset knows."""
        return bin_rates(self.score)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "figures": [vars(figure) for figure in self.score.figures()],
            "cuts": vars(self.score.cuts),
            **{name: value for name, value in vars(self).items() if name.startswith("n_")},
            "bins": {
                name: {
                    "edges": edges.tolist(),
                    **{
                        rate: {"n_passed": one.n_passed.tolist(), "n_all": one.n_all.tolist()}
                        for rate, one in rates.items()
                    },
                }
                for name, (edges, rates) in self.bins().items()
            },
        }


def bin_rates(score: TrackScore) -> dict[str, tuple[NDArray[np.float64], dict[str, BinnedRate]]]:
    """Edges and rates by property, of all that is known; against pT for particles of every pT."""
    binned = {}
    for name in PROPERTIES:
        if score.has(name):
            edges = EDGES[name] if name in EDGES else _find_edges(score, name)
            binned[name] = (edges, score.against(name, edges, cut_pt=name != "pt"))
    return binned


def _find_edges(score: TrackScore, name: str) -> NDArray[np.float64]:
    """Fifths of the targets by a property."""
    values = [m.particles[name][of] for m, of in zip(score.matches, score.is_target, strict=True)]
    known = np.concatenate(values).astype(np.float64) if values else np.zeros(0)
    if not len(known):
        return np.array([0.0, 1.0])
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 6)))
    edges[-1] += 1e-6
    return edges if len(edges) > 1 else np.array([edges[0] - 1, edges[0]])


def score_tracks(
    tracks: Path, dataset: Dataset, split: str, cuts: TargetCuts, *, progress: Progress | None = None
) -> Scored:
    """Compare a file of tracks with the truth of a split; see `hept.score_tracks`.

    The sectors of an event are joined by `hit_id`: tracks and particles are those of the whole event, as far
    as the dataset has its hits.
    """
    check_split(dataset, split)
    check_labels(dataset, needs_pairs=False)
    target = find_target(dataset)
    _check_cuts(dataset, cuts)
    found = read_tracks(tracks)
    listener = progress or Silent()
    matches, seen, n_unknown = [], [], 0
    with counting(listener, "scoring", len(dataset[split]), "cloud"):
        for event_id, n_clouds, columns in _read_events(dataset, split):
            truth = list_truth(columns, target, with_density=True)
            hit, track, unknown = _find_hits(columns[target.point_id], *found.of_event(event_id))
            matches.append(match_tracks(hit, track, truth))
            seen.append(event_id)
            n_unknown += unknown
            listener.advance(n_clouds)
    common = np.isin(seen, found.events)
    if not common.any():
        raise InputError(
            tracks,
            found=f"tracks of {len(found.events)} events, such as {found.events[:1].tolist()}",
            expected=f"events of the split {split!r} of {dataset.root.location}, such as event {seen[0]}",
            remedy="give the dataset, or the split, that the tracks are of",
        )
    n_other = len(found.events) - int(common.sum())
    return Scored(TrackScore(tuple(matches), cuts), len(seen), int((~common).sum()), n_other, n_unknown)


def _check_cuts(dataset: Dataset, cuts: TargetCuts) -> None:
    knows = dataset.schema.has_column
    lacks = {
        "`primary`": cuts.primary is not None and not (knows("origin_x") or knows("vertex_primary")),
        "`min_layers`": bool(cuts.min_layers) and not knows("n_layers_hit"),
    }
    for name, is_lacking in lacks.items():
        if is_lacking:
            raise InputError(
                name,
                found=f"{dataset.root.location}, which does not store what it needs",
                expected="n_layers_hit for layers; origin_x or vertex_primary for primaries",
                remedy=f"leave {name} out, or build the dataset from files that tell it",
            )


def _read_events(dataset: Dataset, split: str) -> Iterator[tuple[int, int, dict[str, NDArray[Any]]]]:
    """Number, number of clouds, and columns of every event."""
    clouds = (dataset[split][place] for place in range(len(dataset[split])))
    for event_id, parts in groupby(clouds, key=lambda cloud: cloud.event_id):
        own = list(parts)
        yield event_id, len(own), dict(own[0].columns) if len(own) == 1 else _join_sectors(own, dataset)


def _join_sectors(clouds: list[PointCloud], dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Every hit once, with the numbers of hits and layers of its particle in all sectors together."""
    target = find_target(dataset)
    columns = {name: np.concatenate([c.columns[name] for c in clouds]) for name in clouds[0].columns}
    _, first = np.unique(columns[target.point_id], return_index=True)
    columns = {name: values[first] for name, values in columns.items()}
    if {"particle_id", "layer"} <= set(columns):
        columns |= count_hits(columns["particle_id"], columns["layer"])
    return columns


def _find_hits(
    known: NDArray[np.integer], hit_id: NDArray[np.int64], track: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Positions of hits by their numbers, their tracks, and how many hits are not known."""
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], hit_id)
    is_known = known[order].take(place, mode="clip") == hit_id if len(known) else np.zeros(0, bool)
    return order[place[is_known]], track[is_known], int((~is_known).sum())
