"""From track labels to tracking efficiencies: particles and found tracks of one cloud enter, matches leave.

Three definitions, each stricter than the one before (Lieret et al. 2023, https://arxiv.org/abs/2312.03823):

- *LHC*: at least 75 % of the track's hits are of one particle.
- *double majority*: more than half of the track's hits are of one particle, and more than half of that
  particle's hits are in the track.
- *perfect*: the track holds all hits of one particle and no others.

Efficiencies are by particle, over reconstructable particles of interest; a second track matched to the same
particle is a duplicate, a track matched to none is fake.

Axes: N hits, K particles of interest, M tracks with at least `min_hits` hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hept.metrics.binned_rate import BinnedRate, count_in_bins

Definition = Literal["lhc", "double_majority", "perfect"]
DEFINITIONS: tuple[Definition, ...] = ("lhc", "double_majority", "perfect")


@dataclass(frozen=True)
class TrackMatch:
    """What was found of the particles of a cloud, and what the tracks are.

    Attributes:
        pt: (K,) of the particles of interest, in GeV.
        eta: (K,).
        is_found: Definition to (K,) whether a track is matched to the particle.
        track_pt: (M,) pT of the particle with most hits in the track, 0 for noise.
        track_eta: (M,) its η; of noise, NaN.
        is_fake: Definition to (M,) whether no particle is matched to the track.
        is_duplicate: Definition to (M,) whether an earlier track is matched to the same particle.
    """

    pt: NDArray[np.float64]
    eta: NDArray[np.float64]
    is_found: dict[Definition, NDArray[np.bool_]]
    track_pt: NDArray[np.float64]
    track_eta: NDArray[np.float64]
    is_fake: dict[Definition, NDArray[np.bool_]]
    is_duplicate: dict[Definition, NDArray[np.bool_]]


def match_tracks(
    track: NDArray[np.integer],
    particle_id: NDArray[np.integer],
    pt: NDArray[np.floating],
    eta: NDArray[np.floating],
    is_reconstructable: NDArray[np.bool_],
    *,
    min_hits: int = 3,
) -> TrackMatch:
    """Compare the tracks of one cloud with its particles.

    Args:
        track: (N,) track label of each hit, negative for none.
        particle_id: (N,), 0 for noise.
        pt: (N,) of the hit's particle.
        eta: (N,) of the hit's particle.
        is_reconstructable: (N,) whether the hit's particle counts.
        min_hits: Tracks with fewer hits are not tracks.

    Raises:
        ValueError: Lengths disagree.
    """
    lengths = {len(array) for array in (track, particle_id, pt, eta, is_reconstructable)}
    if len(lengths) != 1:
        raise ValueError(f"the arrays have {sorted(lengths)} hits; they must have as many")
    particles, first, particle, n_of_particle = np.unique(
        particle_id, return_index=True, return_inverse=True, return_counts=True
    )
    labels, track_index, n_of_track = np.unique(track, return_inverse=True, return_counts=True)
    # Hits of each (track, particle) that occurs; the largest of each track is its majority.
    shared, n_shared = np.unique(track_index * len(particles) + particle, return_counts=True)
    owner, partner = np.divmod(shared, max(len(particles), 1))
    best = np.lexsort((partner, -n_shared, owner))
    best = best[np.unique(owner[best], return_index=True)[1]]
    kept = best[(labels[owner[best]] >= 0) & (n_of_track[owner[best]] >= min_hits)]
    major, n_major = partner[kept], n_shared[kept]
    in_track, of_particle = n_of_track[owner[kept]], n_of_particle[major]
    is_particle = particles[major] != 0
    is_matched: dict[Definition, NDArray[np.bool_]] = {
        "lhc": is_particle & (n_major >= 0.75 * in_track),
        "double_majority": is_particle & (2 * n_major > in_track) & (2 * n_major > of_particle),
        "perfect": is_particle & (n_major == in_track) & (n_major == of_particle),
    }
    of_interest = np.flatnonzero((particles != 0) & is_reconstructable[first])
    first_of = first[of_interest]
    return TrackMatch(
        pt=pt[first_of].astype(np.float64),
        eta=eta[first_of].astype(np.float64),
        is_found={name: np.isin(of_interest, major[is_matched[name]]) for name in DEFINITIONS},
        track_pt=np.where(is_particle, pt[first[major]], 0.0).astype(np.float64),
        track_eta=np.where(is_particle, eta[first[major]], np.nan).astype(np.float64),
        is_fake={name: ~is_matched[name] for name in DEFINITIONS},
        is_duplicate={name: _repeats(major, is_matched[name]) for name in DEFINITIONS},
    )


def _repeats(major: NDArray[np.integer], is_matched: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Matched tracks whose particle an earlier matched track has."""
    is_repeat = is_matched.copy()
    matched = np.flatnonzero(is_matched)
    is_repeat[matched[np.unique(major[matched], return_index=True)[1]]] = False
    return is_repeat


@dataclass(frozen=True)
class Rates:
    """Efficiencies, fake and duplicate rates over many clouds."""

    matches: tuple[TrackMatch, ...]

    def summary(self, pt_min: float = 0.0) -> dict[str, float]:
        """One number each, over particles (tracks) above `pt_min`; NaN where there is none."""
        numbers: dict[str, float] = {}
        for name in DEFINITIONS:
            is_found = np.concatenate([m.is_found[name][m.pt > pt_min] for m in self.matches])
            numbers[f"efficiency_{name}"] = _mean(is_found)
        for name in DEFINITIONS:
            numbers[f"fake_rate_{name}"] = _mean(np.concatenate([m.is_fake[name] for m in self.matches]))
            numbers[f"duplicate_rate_{name}"] = _mean(
                np.concatenate([m.is_duplicate[name] for m in self.matches])
            )
        return numbers

    def against(
        self,
        variable: Literal["pt", "eta"],
        edges: NDArray[np.floating],
        definition: Definition,
        pt_min: float = 0.0,
    ) -> dict[str, BinnedRate]:
        """Efficiency, fake and duplicate rate in bins of pT or η.

        The efficiency counts particles above `pt_min`; the other two count tracks, by the particle with most
        hits in them.
        """
        value = np.concatenate([getattr(m, variable)[m.pt > pt_min] for m in self.matches])
        found = np.concatenate([m.is_found[definition][m.pt > pt_min] for m in self.matches])
        of_track = np.concatenate([getattr(m, f"track_{variable}") for m in self.matches])
        fake = np.concatenate([m.is_fake[definition] for m in self.matches])
        duplicate = np.concatenate([m.is_duplicate[definition] for m in self.matches])
        return {
            "efficiency": count_in_bins(value, found, edges),
            "fake_rate": count_in_bins(of_track, fake, edges),
            "duplicate_rate": count_in_bins(of_track, duplicate, edges),
        }


def _mean(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else float("nan")


def trackml_score(
    track: NDArray[np.integer], particle_id: NDArray[np.integer], weight: NDArray[np.floating]
) -> float:
    """The TrackML challenge's score of one event: the weight of the hits that are in well-matched tracks.

    A track is well matched where more than half of its hits are of one particle and more than half of that
    particle's hits are in it; of a track, the hits of that particle count. Particles and tracks with fewer
    than four hits count as any other, as in the challenge
    (https://www.kaggle.com/c/trackml-particle-identification).

    Args:
        track: (N,) label of every hit; hits in no track should have labels of their own, or −1.
        particle_id: (N,), 0 for noise.
        weight: (N,) of the hits; noise has 0.
    """
    particles, particle, n_of_particle = np.unique(particle_id, return_inverse=True, return_counts=True)
    labels, track_index, n_of_track = np.unique(track, return_inverse=True, return_counts=True)
    shared, inverse, n_shared = np.unique(
        track_index * max(len(particles), 1) + particle, return_inverse=True, return_counts=True
    )
    owner, partner = np.divmod(shared, max(len(particles), 1))
    is_good = (2 * n_shared > n_of_track[owner]) & (2 * n_shared > n_of_particle[partner])
    is_good &= (labels[owner] >= 0) & (particles[partner] != 0)
    total = float(weight.sum())
    return float(weight[is_good[inverse]].sum()) / total if total > 0 else float("nan")
