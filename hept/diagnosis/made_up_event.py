"""A made-up event of any size: particles with ten hits each, in an order in which neighbours are close.

Making it takes milliseconds, so that a diagnosis spends its time on the checks.

Axes: N points, F features, D coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hepdata.cloud import PairList, PointCloud
from hepdata.loader.batch import PairTensors
from hepdata.schema import TRACKING
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.dataset.names import name_shard
from hepdata.storage.parquet.writer import write_shard

HITS = 10
N_NEGATIVES = 256


@dataclass(frozen=True)
class Event:
    """What model and loss are given.

    Attributes:
        features: (N, 15) float32.
        coords: (N, 6) float32.
        offsets: (2,) int64.
        particle: (N,) int64.
        positives: Hits of the same particle.
        negatives: 256 points before and behind, of other particles.
    """

    features: Tensor
    coords: Tensor
    offsets: Tensor
    particle: Tensor
    positives: PairTensors
    negatives: PairTensors

    def to(self, device: torch.device) -> Event:
        """The event on a device."""
        return Event(
            self.features.to(device),
            self.coords.to(device),
            self.offsets.to(device),
            self.particle.to(device),
            PairTensors(self.positives.ptr.to(device), self.positives.idx.to(device)),
            PairTensors(self.negatives.ptr.to(device), self.negatives.idx.to(device)),
        )


def draw_event(n_points: int, *, seed: int = 0) -> Event:
    """An event of `n_points` points, on the CPU."""
    random = np.random.default_rng(seed)
    particle, eta, phi = _draw_hits(n_points, random)
    features = random.standard_normal((n_points, 15)).astype(np.float32)
    radius, z = random.uniform(0.03, 1, n_points), random.uniform(-1, 1, n_points)
    coords = np.stack([eta, phi, radius, phi / np.pi, z, eta], 1).astype(np.float32)
    positives, negatives = (
        PairTensors(torch.from_numpy(pairs.ptr.astype(np.int64)), torch.from_numpy(pairs.idx))
        for pairs in _list_pairs(particle)
    )
    return Event(
        torch.from_numpy(features),
        torch.from_numpy(coords),
        torch.tensor([0, n_points]),
        torch.from_numpy(particle),
        positives,
        negatives,
    )


def write_events(folder: Path, n_points: int, splits: Mapping[str, int]) -> Path:
    """A dataset of such events, with pair lists."""
    staging = folder.with_name(f"{folder.name}.partial")
    staging.mkdir(parents=True)
    event_id, records = 0, {}
    for split, n_clouds in splits.items():
        clouds = [_make_cloud(n_points, event_id + i) for i in range(n_clouds)]
        event_id += n_clouds
        records[split] = [write_shard(staging / name_shard(split, 0, 1), clouds, TRACKING)] if clouds else []
    finish_dataset(staging, folder, schema=TRACKING, splits=records, configuration={"made": "by hept.doctor"})
    return folder


def _make_cloud(n_points: int, event_id: int) -> PointCloud:
    random = np.random.default_rng(event_id)
    particle, eta, phi = _draw_hits(n_points, random)
    known = {
        "hit_id": np.arange(n_points) + 1,
        "particle_id": particle,
        "eta": eta,
        "phi": phi,
        "pt": np.full(n_points, 2.0),
        "is_reconstructable": particle > 0,
    }
    columns = {
        column.name: np.asarray(known.get(column.name, random.uniform(0, 1, n_points))).astype(column.dtype)
        for column in TRACKING.columns
    }
    return PointCloud("tracking", event_id, 0, columns, *_list_pairs(particle))


def _draw_hits(
    n_points: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Particle, η and φ of every hit; hits of a particle are at most some dozen positions apart."""
    n_particles = -(-n_points // HITS)
    eta = np.sort(random.uniform(-4, 4, n_particles))
    phi = random.uniform(-np.pi, np.pi, n_particles)
    place = np.repeat(np.arange(n_particles), HITS)[:n_points] + random.normal(0, 1, n_points)
    particle = np.repeat(np.arange(n_particles), HITS)[:n_points][np.argsort(place)]
    return (
        particle.astype(np.int64) + 1,
        eta[particle] + random.normal(0, 0.01, n_points),
        phi[particle] + random.normal(0, 0.01, n_points),
    )


def _list_pairs(particle: NDArray[np.int64]) -> tuple[PairList, PairList]:
    n_points = len(particle)
    order = np.argsort(particle, kind="stable")
    counts = np.bincount(particle)
    first = np.cumsum(counts) - counts
    lists = []
    # Partners by position, among the hits of the particle or along the axis of points.
    within = np.arange(int(counts.max()))
    same = first[particle][:, None] + within
    is_there = within < counts[particle][:, None]
    partner = order[np.minimum(same, n_points - 1)]
    lists.append((partner, is_there & (partner != np.arange(n_points)[:, None])))
    step = np.concatenate([np.arange(-N_NEGATIVES // 2, 0), np.arange(1, N_NEGATIVES // 2 + 1)])
    partner = np.arange(n_points)[:, None] + step
    is_there = (partner >= 0) & (partner < n_points)
    partner = partner.clip(0, n_points - 1)
    lists.append((partner, is_there & (particle[partner] != particle[:, None])))
    positives, negatives = (
        PairList(
            np.concatenate([[0], is_pair.sum(1).cumsum()]).astype(np.int32),
            partner[is_pair].astype(np.int32),
        )
        for partner, is_pair in lists
    )
    return positives, negatives
