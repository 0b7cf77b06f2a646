"""From tracks to matches: hits of tracks and the truth of one event enter, what was found leaves.

Three definitions of a match, each stricter in its own way (Lieret et al. 2023,
https://arxiv.org/abs/2312.03823):

- *LHC*: at least 75 % of the track's hits are of one particle.
- *double majority*: more than half of the track's hits are of one particle, and more than half of that
  particle's hits are in the track.
- *perfect*: the track holds all hits of one particle and no others.

Noise is no particle: the majority particle of a track is the one with most hits in it, however many of them
are noise.

Axes: N hits, A hits of tracks (a hit may be in several tracks), K particles, M tracks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hepdata.schema import SCORED_PT

Definition = Literal["lhc", "double_majority", "perfect"]
DEFINITIONS: tuple[Definition, ...] = ("lhc", "double_majority", "perfect")
# Tracks with fewer hits are no tracks.
MIN_HITS = 3
# A track with a smaller part of its hits from one particle is impure.
PURE = 0.75


@dataclass(frozen=True)
class EventTruth:
    """The truth of one event, by hit.

    Attributes:
        particle: (N,) id of the hit's particle, 0 for noise.
        can_be_found: (N,) whether the hit's particle is reconstructable.
        properties: (N,) each, of the hit's particle: always `pt` and `eta`; `n_layers`, `vertex`, `origin`,
            `charge`, `phi`, `d0`, `z0` and `density` where they are known.
        weight: (N,) of the hit in the TrackML score.
    """

    particle: NDArray[np.int64]
    can_be_found: NDArray[np.bool_]
    properties: Mapping[str, NDArray[np.floating]]
    weight: NDArray[np.float64]

    def __post_init__(self) -> None:
        arrays = (self.particle, self.can_be_found, self.weight, *self.properties.values())
        lengths = {len(array) for array in arrays}
        if len(lengths) != 1:
            raise ValueError(f"the arrays have {sorted(lengths)} hits; they must have as many")


@dataclass(frozen=True)
class TrackMatch:
    """The particles of one event, its tracks, and which of them belong together.

    Attributes:
        particles: (K,) each: the properties, and `n_hits`.
        can_be_found: (K,) whether the particle is reconstructable.
        is_found: Definition to (K,) whether a track is matched to the particle.
        hit_efficiency: (K,) part of the particle's hits in its track (double majority); NaN where not found.
        n_hits: (M,) of the track.
        major: (M,) the particle with most hits in the track, −1 where all are noise.
        n_major: (M,) hits of that particle in the track.
        is_matched: Definition to (M,).
        is_duplicate: (M,) whether more than half of the track's hits are of a particle of which another
            track, also more than half from it, has more hits (of equal tracks, the first one is none).
        score: The TrackML score; NaN without weights.
    """

    particles: Mapping[str, NDArray[np.floating]]
    can_be_found: NDArray[np.bool_]
    is_found: Mapping[Definition, NDArray[np.bool_]]
    hit_efficiency: NDArray[np.float64]
    n_hits: NDArray[np.int64]
    major: NDArray[np.int64]
    n_major: NDArray[np.int64]
    is_matched: Mapping[Definition, NDArray[np.bool_]]
    is_duplicate: NDArray[np.bool_]
    score: float

    def of_track(self, name: str) -> NDArray[np.float64]:
        """(M,) a property of each track's majority particle; NaN where all its hits are noise."""
        known = np.append(self.particles[name].astype(np.float64), np.nan)
        values: NDArray[np.float64] = known[self.major]
        return values


@dataclass(frozen=True)
class _Overlap:
    """Tracks against particles, for every pair with a common hit.

    Attributes:
        owner: Track.
        partner: Particle.
        n_shared: Common hits.
        of_hit: (A,) the pair that each hit of a track belongs to.
        n_of_track: Hits of each track.
        n_of_particle: Hits of each particle.
        is_particle: Whether a particle is none of noise.
    """

    owner: NDArray[np.int64]
    partner: NDArray[np.int64]
    n_shared: NDArray[np.int64]
    of_hit: NDArray[np.int64]
    n_of_track: NDArray[np.int64]
    n_of_particle: NDArray[np.int64]
    is_particle: NDArray[np.bool_]

    def is_double_majority(self) -> NDArray[np.bool_]:
        return (
            self.is_particle[self.partner]
            & (2 * self.n_shared > self.n_of_track[self.owner])
            & (2 * self.n_shared > self.n_of_particle[self.partner])
        )


def match_labels(label: NDArray[np.integer], truth: EventTruth, *, min_hits: int = MIN_HITS) -> TrackMatch:
    """Match tracks given as (N,) one label per hit, negative for none; see `match_tracks`."""
    if len(label) != len(truth.particle):
        raise ValueError(f"{len(label)} labels for {len(truth.particle)} hits; they must be as many")
    hit = np.flatnonzero(label >= 0)
    return match_tracks(hit, label[hit], truth, min_hits=min_hits)


def match_tracks(
    hit: NDArray[np.integer], track: NDArray[np.integer], truth: EventTruth, *, min_hits: int = MIN_HITS
) -> TrackMatch:
    """Compare the tracks of one event with its particles.

    Args:
        hit: (A,) position of a hit in the truth.
        track: (A,) number of the track that it is in. A hit that a track names twice counts once.
        truth: Of the event.
        min_hits: Tracks with fewer hits are no tracks (the TrackML score counts them, as the challenge does).
    """
    particles, first, particle, n_of_particle = np.unique(
        truth.particle, return_index=True, return_inverse=True, return_counts=True
    )
    hit, owner, n_of_track = _list_hits(hit, track)
    shared, of_hit, n_shared = np.unique(
        owner * max(len(particles), 1) + particle[hit], return_inverse=True, return_counts=True
    )
    pairs = np.divmod(shared, max(len(particles), 1))
    overlap = _Overlap(*pairs, n_shared, of_hit, n_of_track, n_of_particle, particles != 0)
    # Of each track the pair with most common hits; pairs with noise come last.
    best = np.lexsort((pairs[1], -np.where(overlap.is_particle[pairs[1]], n_shared, 0), pairs[0]))
    best = best[np.unique(pairs[0][best], return_index=True)[1]]
    best = best[n_of_track[pairs[0][best]] >= min_hits]
    in_track, major = n_of_track[pairs[0][best]], pairs[1][best]
    is_real = overlap.is_particle[major]
    n_major, of_major = np.where(is_real, n_shared[best], 0), n_of_particle[major]
    is_matched: dict[Definition, NDArray[np.bool_]] = {
        "lhc": is_real & (n_major >= PURE * in_track),
        "double_majority": overlap.is_double_majority()[best],
        "perfect": is_real & (n_major == in_track) & (n_major == of_major),
    }
    kept = np.flatnonzero(particles != 0)
    row = np.full(len(particles), -1)
    row[kept] = np.arange(len(kept))
    efficiency = np.full(len(particles), np.nan)
    is_good = is_matched["double_majority"]
    np.fmax.at(efficiency, major[is_good], n_major[is_good] / of_major[is_good])
    return TrackMatch(
        particles={name: values[first[kept]] for name, values in truth.properties.items()}
        | {"n_hits": n_of_particle[kept].astype(np.float64)},
        can_be_found=truth.can_be_found[first[kept]],
        is_found={name: np.isin(kept, major[is_matched[name]]) for name in DEFINITIONS},
        hit_efficiency=efficiency[kept],
        n_hits=in_track,
        major=row[major],
        n_major=n_major,
        is_matched=is_matched,
        is_duplicate=_repeats(major, n_major, 2 * n_major > in_track),
        score=_trackml_score(overlap, hit, truth.weight),
    )


def _list_hits(
    hit: NDArray[np.integer], track: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Hits and tracks numbered from 0, each pair once, and the number of hits of each track."""
    owner = np.unique(track, return_inverse=True)[1].astype(np.int64)
    n_hits = int(hit.max()) + 1 if len(hit) else 1
    owner, position = np.divmod(np.unique(owner * n_hits + hit), n_hits)
    return position.astype(np.int64), owner, np.bincount(owner)


def _repeats(
    major: NDArray[np.integer], n_major: NDArray[np.integer], is_pure: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of the pure tracks, those that are not the one with most hits of their particle."""
    is_repeat = is_pure.copy()
    pure = np.flatnonzero(is_pure)
    order = pure[np.lexsort((pure, -n_major[pure], major[pure]))]
    is_repeat[order[np.unique(major[order], return_index=True)[1]]] = False
    return is_repeat


def _trackml_score(overlap: _Overlap, hit: NDArray[np.int64], weight: NDArray[np.float64]) -> float:
    """The TrackML challenge's score: the weight of the hits in well-matched tracks, of all weight.

    A track is well matched by double majority; of it, the hits of its particle count, each once
    (https://www.kaggle.com/c/trackml-particle-identification).
    """
    total = float(weight.sum())
    scored = np.unique(hit[overlap.is_double_majority()[overlap.of_hit]])
    return float(weight[scored].sum()) / total if total > 0 else float("nan")


@dataclass(frozen=True)
class TargetCuts:
    """Which particles are to be found, beside that they are reconstructable.

    Attributes:
        pt_min: GeV; the pT is larger.
        eta_max: |η| is smaller.
        min_hits: Hits of the particle at least.
        min_layers: Layers hit at least.
        primary: True takes only particles from the beam line (`origin` below 2 mm) or, where the origin is
            not stored, of the hard collision; False takes the others; None both.
    """

    pt_min: float = SCORED_PT
    eta_max: float | None = None
    min_hits: int = 0
    min_layers: int = 0
    primary: bool | None = None

    def select(self, match: TrackMatch) -> NDArray[np.bool_]:
        """(K,) the targets among the particles of an event."""
        known = match.particles
        chosen = match.can_be_found & (known["pt"] > self.pt_min) & (known["n_hits"] >= self.min_hits)
        if self.eta_max is not None:
            chosen &= np.abs(known["eta"]) < self.eta_max
        if self.min_layers:
            chosen &= known["n_layers"] >= self.min_layers
        if self.primary is not None:
            is_primary = known["origin"] < NEAR_BEAM if "origin" in known else known["vertex"] == 1
            chosen &= is_primary == self.primary
        return chosen


# mm from the beam axis.
NEAR_BEAM = 2.0
