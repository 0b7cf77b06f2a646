"""Steps after the tree, each by helix fits: labels and hits enter, better labels leave.

A step asks which hits of a track one helix explains, or by how much χ² changes: when two tracks become one,
when a lone hit is added. All candidates of a step are fitted at once.

Axes: N hits, M tracks, C candidates, A hits of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hept.tracks.helix import MIN_HITS, Helices, HitError, fit_helices, measure_distances
from hept.tracks.tree import NO_TRACK, number_labels

Labels = NDArray[np.int64]
# Tracks nearby in the embedding with which a piece or a lone hit is tried.
NEIGHBOURS = 6
_ROUNDS = 2
# Squared distance of a hit from the helix through three others, in units of its error.
GATE = 30.0


@dataclass(frozen=True)
class StepChoice:
    """Which steps follow the tree, and their limits; a limit of None leaves the step out.

    Attributes:
        passes: How often tracks are grown: again from the hits that are left, with a larger cut.
        widen: Factor on the cut from one pass to the next.
        quality: χ² per degree of freedom above which a track is cut down to the hits of one helix, and
            dropped if that is not enough.
        merge: Growth of χ² up to which two pieces become one track.
        add: Growth of χ² up to which a lone hit is added.
        reach: Distance in the embedding at which pieces and hits are looked for, in cuts of the first pass.
        error: Of a hit.

    Raises:
        ValueError: A number out of range.
    """

    passes: int = 3
    widen: float = 1.4
    quality: float | None = 10.0
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


def split_mixtures(label: Labels, places: HitPlaces, limit: float, error: HitError) -> Labels:
    """Of tracks with χ² per degree of freedom above `limit`, keep the most hits that one helix explains.

    Every three hits of such a track give a helix, and the hits near it a candidate. The best one has the most
    modules, then the least χ². It is kept if its own χ² is below `limit` and it has four hits, or most of
    them; the other hits are free for other tracks.
    """
    hit, offsets = _list_hits(label)
    sizes = np.diff(offsets)
    n = len(sizes)
    quality = places.fit(hit, np.repeat(np.arange(n), sizes), n, error).quality
    mixed = np.flatnonzero((sizes > MIN_HITS) & (quality > limit))
    if not len(mixed):
        return label
    chosen = [_choose_three(int(size)) for size in sizes[mixed]]
    owner = np.repeat(mixed, [len(each) for each in chosen])
    threes = hit[np.concatenate(chosen) + offsets[owner][:, None]]
    helices = places.fit(threes.ravel(), np.repeat(np.arange(len(owner)), MIN_HITS), len(owner), error)
    whole, candidate = _expand(owner, offsets)
    whole = hit[whole]
    distance = measure_distances(helices, candidate, places.x[whole], places.y[whole], places.z[whole])
    is_near = distance < GATE * error.at(helices.pt())[candidate]
    whole, candidate = whole[is_near], candidate[is_near]
    fitted = places.fit(whole, candidate, len(owner), error)
    n_modules = fitted.n_hits - _count_shared(candidate, places.module[whole], len(owner))
    is_enough = (fitted.n_hits > MIN_HITS) | (2 * fitted.n_hits > sizes[owner])
    good = np.flatnonzero((fitted.quality < limit) & is_enough)
    order = np.lexsort((fitted.quality[good], -n_modules[good], owner[good]))
    best = good[order[np.unique(owner[good][order], return_index=True)[1]]]
    label = label.copy()
    label[np.isin(label, owner[best])] = NO_TRACK
    is_best = np.isin(candidate, best)
    label[whole[is_best]] = owner[candidate[is_best]]
    return label


@cache
def _choose_three(size: int) -> NDArray[np.int64]:
    return np.array(list(combinations(range(size), MIN_HITS)))


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

    In each of two rounds, a track gets at most one hit, on a module where it has none, and a hit joins at
    most one track.

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
