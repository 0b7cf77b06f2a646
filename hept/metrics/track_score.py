"""From matches to figures of merit: the matches of many events enter, rates with errors and counts leave.

Efficiencies count particles and have Clopper–Pearson intervals; all else is a rate of tracks or a mean, whose
error comes from drawing the events anew (bootstrap). All intervals are of one standard deviation.

Axes: E events, K particles and M tracks of all events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hept.metrics.binned_rate import BinnedRate, count_in_bins
from hept.metrics.tracks import DEFINITIONS, PURE, Definition, TargetCuts, TrackMatch

# Events are drawn anew so many times, by this seed.
N_DRAWS, SEED = 1000, 1
# Central part of a normal distribution within one standard deviation.
_CENTRAL = (0.158655, 0.841345)


@dataclass(frozen=True)
class Figure:
    """One figure of merit.

    Attributes:
        name: Its key in evaluations.
        value: NaN where nothing is counted.
        low: Lower end of the interval; NaN where it cannot be known, as from a single event.
        high: Upper end.
        n_all: What the rate is of.
        unit: What is counted in `n_all`.
    """

    name: str
    value: float
    low: float
    high: float
    n_all: int
    unit: str


@dataclass(frozen=True)
class TrackScore:
    """What was found in many events, under every definition that the field uses.

    Attributes:
        matches: One for each event (or cloud).
        cuts: Which particles are the targets.
    """

    matches: tuple[TrackMatch, ...]
    cuts: TargetCuts = field(default_factory=TargetCuts)

    @cached_property
    def is_target(self) -> list[NDArray[np.bool_]]:
        """(K,) of each event."""
        return [self.cuts.select(match) for match in self.matches]

    def figures(self) -> list[Figure]:
        """All figures of merit, in the order of tables."""
        return [*self._efficiencies(), *self._rates(), *self._means()]

    def summary(self) -> dict[str, float]:
        """The values by name, and how many targets and tracks they are of."""
        numbers = {figure.name: figure.value for figure in self.figures()}
        n_targets = sum(int(chosen.sum()) for chosen in self.is_target)
        return numbers | {"n_targets": float(n_targets), "n_tracks": float(self.n_tracks)}

    @property
    def n_tracks(self) -> int:
        """Tracks of all events."""
        return sum(len(match.major) for match in self.matches)

    def against(
        self, variable: str, edges: NDArray[np.floating], *, cut_pt: bool = True
    ) -> dict[str, BinnedRate]:
        """Double-majority efficiency, fakes and duplicates in bins of a property of particles.

        Tracks are binned by their majority particle; those of noise are in no bin.

        Args:
            variable: "pt", "eta", "density", "origin", or another property.
            edges: Of the bins.
            cut_pt: Whether the efficiency counts targets only, or particles of every pT.
        """
        cuts = self.cuts if cut_pt else TargetCuts(**(vars(self.cuts) | {"pt_min": 0.0}))
        chosen = [cuts.select(match) for match in self.matches]
        pairs = list(zip(self.matches, chosen, strict=True))
        value = _join([m.particles[variable][of] for m, of in pairs])
        found = _join([m.is_found["double_majority"][of] for m, of in pairs])
        of_track = _join([m.of_track(variable) for m in self.matches])
        fake = _join([~m.is_matched["double_majority"] for m in self.matches])
        duplicate = _join([m.is_duplicate for m in self.matches])
        return {
            "efficiency": count_in_bins(value, found.astype(bool), edges),
            "fake_rate": count_in_bins(of_track, fake.astype(bool), edges),
            "duplicate_rate": count_in_bins(of_track, duplicate.astype(bool), edges),
        }

    def has(self, variable: str) -> bool:
        """Whether a property of the particles is known in all events."""
        return all(variable in match.particles for match in self.matches)

    def _efficiencies(self) -> list[Figure]:
        figures = []
        for name in DEFINITIONS:
            found = [m.is_found[name][of] for m, of in zip(self.matches, self.is_target, strict=True)]
            n_all, n_found = sum(len(f) for f in found), sum(int(f.sum()) for f in found)
            rate = BinnedRate(np.array([n_found]), np.array([n_all]))
            (low,), (high,) = rate.interval()
            figures.append(
                Figure(f"efficiency_{name}", float(rate.value[0]), low, high, n_all, "target particles")
            )
        return figures

    def _rates(self) -> list[Figure]:
        counted = [self._count_tracks(m, of) for m, of in zip(self.matches, self.is_target, strict=True)]
        units = {"fake_rate_target": "tracks of targets", "hit_purity": "hits of matched tracks"}
        names = list(counted[0]) if counted else []
        return [
            _draw_ratio(name, np.array([c[name] for c in counted], float), units.get(name, "tracks"))
            for name in names
        ]

    def _count_tracks(self, match: TrackMatch, is_target: NDArray[np.bool_]) -> dict[str, tuple[int, int]]:
        """Of the tracks of one event how many, out of how many."""
        of_target = np.append(is_target, False)[match.major]
        is_good, n = match.is_matched["double_majority"], len(match.major)
        return {
            "fake_rate": (int((~is_good).sum()), n),
            "fake_rate_target": (int((~is_good & of_target).sum()), int(of_target.sum())),
            "fake_rate_impure": (int((match.n_major < PURE * match.n_hits).sum()), n),
            "duplicate_rate": (int(match.is_duplicate.sum()), n),
            "hit_purity": (int(match.n_major[is_good].sum()), int(match.n_hits[is_good].sum())),
        }

    def _means(self) -> list[Figure]:
        found = [m.hit_efficiency[of] for m, of in zip(self.matches, self.is_target, strict=True)]
        of_found = np.array([(np.nansum(f), np.isfinite(f).sum()) for f in found], float).reshape(-1, 2)
        # Events of noise only have no score.
        scores = np.array([(m.score, 1.0) for m in self.matches if not np.isnan(m.score)]).reshape(-1, 2)
        return [
            _draw_ratio("hit_efficiency", of_found, "found targets"),
            _draw_ratio("trackml_score", scores, "events"),
        ]


def _draw_ratio(name: str, counts: NDArray[np.float64], unit: str) -> Figure:
    """The ratio of two sums over events (E, 2), and its interval by drawing the events anew."""
    top, n_all = counts.sum(0)
    value = float(top / n_all) if n_all else float("nan")
    low = high = float("nan")
    if len(counts) > 1 and n_all:
        drawn = np.random.default_rng(SEED).integers(0, len(counts), (N_DRAWS, len(counts)))
        sums = counts[drawn].sum(1)
        ratios = sums[sums[:, 1] > 0]
        low, high = (float(end) for end in np.quantile(ratios[:, 0] / ratios[:, 1], _CENTRAL))
    return Figure(name, value, low, high, int(n_all), unit)


def _join(parts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)


def subtract_paired(
    ours: TrackScore, theirs: TrackScore, definition: Definition = "double_majority"
) -> tuple[float, float]:
    """Difference of two efficiencies on the same events, and its error by a paired bootstrap.

    Raises:
        ValueError: The scores are of different numbers of events.
    """
    if len(ours.matches) != len(theirs.matches):
        raise ValueError(f"{len(ours.matches)} and {len(theirs.matches)} events; they must be the same ones")
    counts = np.array(
        [
            [
                (m.is_found[definition][of].sum(), of.sum())
                for m, of in zip(s.matches, s.is_target, strict=True)
            ]
            for s in (ours, theirs)
        ],
        float,
    )  # (2, E, 2)
    drawn = np.random.default_rng(SEED).integers(0, counts.shape[1], (N_DRAWS, counts.shape[1]))
    sums = np.vstack([counts.sum(1)[None], counts[:, drawn].sum(2).transpose(1, 0, 2)])  # (1 + draws, 2, 2)
    difference = sums[:, 0, 0] / sums[:, 0, 1] - sums[:, 1, 0] / sums[:, 1, 1]
    return float(difference[0]), float(difference[1:].std())
