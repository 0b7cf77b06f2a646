"""Pair lists: the literal published procedure against ours; both give the same pairs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.published_pairs import list_pairs
from benchmarks.ratio import Ratio, seconds
from benchmarks.tracking_events import full_event
from hepdata.cloud import PairList
from hepdata.features.tracking import CloudChoice
from hepdata.pairs.paper_definition import pair_nearest_others, pair_same_particle
from hepdata.pairs.published_definition import pair_published
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig, open_tracking

N_POINTS = 6_000


def run() -> list[Ratio]:
    """The ratio at the size of a Tracking-6k cloud."""
    eta, phi, particle_id = dense_points()
    positives, negatives = pair_published(eta, phi, particle_id, 256, 1.0)
    expected = list_pairs(eta, phi, particle_id)
    if not np.array_equal(_as_keys(expected, N_POINTS), _keys_of(positives, negatives)):
        raise RuntimeError("the two sides of the benchmark give different pairs")
    ours = seconds(lambda: pair_published(eta, phi, particle_id, 256, 1.0), repeats=7)
    literal = seconds(lambda: list_pairs(eta, phi, particle_id), repeats=1, warm_up=False)
    paper = seconds(
        lambda: (pair_same_particle(particle_id), pair_nearest_others(eta, phi, particle_id, 256)), repeats=7
    )
    return [
        Ratio(
            f"literal published pair procedure / ours, {N_POINTS:,} points, same {expected.shape[1]:,} pairs",
            literal / ours,
            50.0,
            "at least",
            f"{literal:.1f} s / {ours:.3f} s; the paper's definition takes {paper:.3f} s",
        )
    ]


def dense_points() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Neighbouring points of a full-size event, with the density of a sector."""
    config = TrackingConfig(clouds=CloudChoice(has_cell_features=False), pairs=PairChoice("none"))
    with tempfile.TemporaryDirectory() as folder:
        source = open_tracking(full_event(Path(folder)), config)
        ((_, clouds),) = source.read_clouds(source.list_events())
    if not isinstance(clouds, list):
        raise clouds
    first = slice(20_000, 20_000 + N_POINTS)
    return clouds[0].eta[first], clouds[0].phi[first], clouds[0].particle_id[first]


def _as_keys(edges: NDArray[np.integer], n_points: int) -> NDArray[np.int64]:
    return np.sort(edges[0].astype(np.int64) * n_points + edges[1])


def _keys_of(positives: PairList, negatives: PairList) -> NDArray[np.int64]:
    edges = np.concatenate([positives.as_edges(), negatives.as_edges()], axis=1)
    return _as_keys(edges, N_POINTS)
