"""Steps after the tree, each by helix fits: labels and hits enter, better labels leave.

A step asks by how much χ² changes: when the worst hit is left out, when two tracks become one, when a lone
hit is added. All candidates of a step are fitted at once.

Axes: N hits, M tracks, C candidates, A hits of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hept.tracks.helix import MIN_HITS, Helices, HitError, fit_helices
from hept.tracks.tree import NO_TRACK, number_labels

Labels = NDArray[np.int64]
# Tracks nearby in the embedding with which a piece or a lone hit is tried.
NEIGHBOURS = 6
_ROUNDS = 2


@dataclass(frozen=True)
class StepChoice:
    """Which steps follow the tree, and their limits; a limit of None leaves the step out.

    Attributes:
        passes: How often tracks are grown: again from the hits that are left, with a larger cut.
        widen: Factor on the cut from one pass to the next.
        quality: χ² per degree of freedom above which hits are taken out of a track, and what cannot be saved
            is given up.
        merge: Growth of χ² up to which two pieces become one track.
        add: Growth of χ² up to which a lone hit is added.
        reach: Distance in the embedding at which pieces and hits are looked for, in cuts of the first pass.
        error: Of a hit.

    Raises:
        ValueError: A number out of range.
    """

    passes: int = 2
    widen: float = 1.6
    quality: float | None = 30.0
    merge: float | None = 30.0
    add: float | None = 20.0
    reach: float = 4.0
    error: HitError = field(default_factory=HitError)

    def __post_init__(self) -> None:
        if self.passes < 1 or self.passes != int(self.passes):
            raise ValueError(f"passes is {self.passes}; it must be at least 1, a whole number")
        if not 1 <= self.widen < np.inf:
            raise ValueError(f"widen is {self.widen}; it must be at least 1")
        for name in ("quality", "merge", "add", "reach"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive and finite")


@dataclass(frozen=True)
class HitPlaces:
    """Where the hits of one event are.

    Attributes:
        embeddings: (N, D).
        x: (N,) in mm.
        y: (N,).
        z: (N,).
        module: (N,) a number that tells modules apart.
    """

    embeddings: NDArray[np.floating]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    module: NDArray[np.integer]

    def fit(self, hit: NDArray[np.integer], track: NDArray[np.integer], n: int, error: HitError) -> Helices:
        """Helices of `n` tracks through some hits (A,)."""
        return fit_helices(track, self.x[hit], self.y[hit], self.z[hit], n, error=error)


def drop_outliers(label: Labels, places: HitPlaces, limit: float, error: HitError) -> Labels:
    """Take the worst hit, or the two worst, out of tracks whose χ² per degree of freedom is above `limit`.

    Tracks that are still above it are left as they were: their χ² does not tell which hits are wrong.
    """
    tried = label.copy()
    for _ in range(_ROUNDS):
        hit, offsets = _list_hits(tried)
        sizes = np.diff(offsets)
        track = np.repeat(np.arange(len(sizes)), sizes)
        quality = places.fit(hit, track, len(sizes), error).quality
        is_tried = (sizes > MIN_HITS) & (quality > limit)
        # One candidate for each hit of these tracks, without it.
        left_out = np.flatnonzero(is_tried[track])
        whole, candidate = _expand(track[left_out], offsets)
        kept = whole != left_out[candidate]
        after = places.fit(hit[whole[kept]], candidate[kept], len(left_out), error).quality
        tried[hit[left_out[_best_of(track[left_out], after)]]] = NO_TRACK
    hit, offsets = _list_hits(tried)
    n = len(offsets) - 1
    quality = places.fit(hit, np.repeat(np.arange(n), np.diff(offsets)), n, error).quality
    is_good = np.append(quality < limit, False)
    return np.where(is_good[label], tried, label)


def merge_pieces(label: Labels, places: HitPlaces, reach: float, limit: float, error: HitError) -> Labels:
    """Make one track of two nearby ones on different modules where χ² grows by less than `limit`.

    Args:
        label: (N,).
        places: Of the hits.
        reach: Largest distance of their centres in the embedding.
        limit: Of χ²(both) − χ²(one) − χ²(other), which has five degrees of freedom.
        error: Of a hit.
    """
    hit, offsets = _list_hits(label)
    n = len(offsets) - 1
    centres = _find_centres(places.embeddings, hit, offsets)
    pairs = _find_neighbours(centres, centres, reach)
    ends = np.unique(np.sort(np.stack(pairs, 1)[pairs[0] != pairs[1]], axis=1), axis=0)
    if not len(ends):
        return label
    own = places.fit(hit, np.repeat(np.arange(n), np.diff(offsets)), n, error).chi2
    first, of_first = _expand(ends[:, 0], offsets)
    second, of_second = _expand(ends[:, 1], offsets)
    whole, candidate = hit[np.r_[first, second]], np.r_[of_first, of_second]
    growth = places.fit(whole, candidate, len(ends), error).chi2 - own[ends[:, 0]] - own[ends[:, 1]]
    is_apart = _count_shared(candidate, places.module[whole], len(ends)) == 0
    good = np.flatnonzero(is_apart & (growth < limit))
    renamed, is_used = np.arange(n), np.zeros(n, bool)
    for a, b in ends[good[np.argsort(growth[good], kind="stable")]].tolist():
        if not (is_used[a] or is_used[b]):
            is_used[a] = is_used[b] = True
            renamed[b] = a
    return number_labels(np.where(label >= 0, renamed[label], NO_TRACK))


def add_lone_hits(
    label: Labels, places: HitPlaces, reach: float, limit: float, error: HitError, quality: float = np.inf
) -> Labels:
    """Give hits in no track to the track nearby whose χ² grows least, and by less than `limit`.

    A track takes at most one hit, on a module where it has none, and a hit goes to one track; twice.

    Args:
        label: (N,).
        places: Of the hits.
        reach: Largest distance of the hit from the track's centre in the embedding.
        limit: Of the growth of χ², which has two degrees of freedom.
        error: Of a hit.
        quality: Tracks with a larger χ² per degree of freedom get none.
    """
    label = label.copy()
    for _ in range(_ROUNDS):
        hit, offsets = _list_hits(label)
        lone = np.flatnonzero(label < 0)
        n = len(offsets) - 1
        centres = _find_centres(places.embeddings, hit, offsets)
        near = _find_neighbours(places.embeddings[lone], centres, reach)
        pairs = np.stack([near[1], lone[near[0]]], 1)
        if not len(pairs):
            break
        fitted = places.fit(hit, np.repeat(np.arange(n), np.diff(offsets)), n, error)
        pairs, own = pairs[fitted.quality[pairs[:, 0]] < quality], fitted.chi2
        inside, of_inside = _expand(pairs[:, 0], offsets)
        whole = np.r_[hit[inside], pairs[:, 1]]
        candidate = np.r_[of_inside, np.arange(len(pairs))]
        growth = places.fit(whole, candidate, len(pairs), error).chi2 - own[pairs[:, 0]]
        shared = _count_shared(candidate, places.module[whole], len(pairs))
        already = _count_shared(np.repeat(np.arange(n), np.diff(offsets)), places.module[hit], n)
        good = np.flatnonzero((shared == already[pairs[:, 0]]) & (growth < limit))
        good = good[_best_of(pairs[good, 1], growth[good])]
        good = good[_best_of(pairs[good, 0], growth[good])]
        if not len(good):
            break
        label[pairs[good, 1]] = pairs[good, 0]
    return label


def drop_bad_tracks(label: Labels, places: HitPlaces, limit: float, error: HitError) -> Labels:
    """Leave out tracks whose χ² per degree of freedom is above `limit`."""
    hit, offsets = _list_hits(label)
    n = len(offsets) - 1
    quality = places.fit(hit, np.repeat(np.arange(n), np.diff(offsets)), n, error).quality
    is_bad = np.append(~(quality < limit), True)
    return number_labels(np.where(is_bad[label], NO_TRACK, label))


def _list_hits(label: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The hits of tracks 0, 1, … one track after the other, and where each begins."""
    order = np.argsort(label, kind="stable")
    hit = order[np.searchsorted(label[order], 0) :]
    return hit, np.r_[0, np.cumsum(np.bincount(label[hit]))].astype(np.int64)


def _expand(
    tracks: NDArray[np.integer], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of some tracks all places in the list of hits (A,), and which of the tracks they are of."""
    sizes = offsets[tracks + 1] - offsets[tracks]
    owner = np.repeat(np.arange(len(tracks)), sizes)
    begin = np.r_[0, np.cumsum(sizes)][:-1]
    return np.arange(len(owner)) - begin[owner] + offsets[tracks][owner], owner


def _find_centres(
    embeddings: NDArray[np.floating], hit: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(M, D) mean embeddings of tracks."""
    if len(offsets) < 2:
        return np.zeros((0, embeddings.shape[1]))
    sums = np.add.reduceat(embeddings[hit].astype(np.float64), offsets[:-1], axis=0)
    return np.asarray(sums / np.diff(offsets)[:, None])


def _find_neighbours(
    points: NDArray[np.floating], centres: NDArray[np.float64], reach: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of points and of their nearest few centres, as far as they are nearer than `reach`."""
    if not len(points) or not len(centres):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    k = min(NEIGHBOURS, len(centres))
    distance, place = cKDTree(centres).query(points, k, distance_upper_bound=reach)
    distance, place = distance.reshape(len(points), k), place.reshape(len(points), k)
    row, column = np.nonzero(np.isfinite(distance))
    return row, place[row, column]


def _count_shared(candidate: NDArray[np.integer], module: NDArray[np.integer], n: int) -> NDArray[np.int64]:
    """(C,) hits on a module that an earlier hit of the candidate is on."""
    both = np.unique(np.stack([candidate, module], 1), axis=0)
    return np.bincount(candidate, minlength=n) - np.bincount(both[:, 0], minlength=n)


def _best_of(group: NDArray[np.integer], cost: NDArray[np.floating]) -> NDArray[np.int64]:
    """The entry with the least cost in each group."""
    order = np.lexsort((cost, group))
    return order[np.unique(group[order], return_index=True)[1]]
