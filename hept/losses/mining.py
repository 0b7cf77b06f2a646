"""Pairs made in training: embeddings and labels enter, positive and negative partners of anchors leave.

On a GPU the host waits for the device a few times a batch, since the number of pairs depends on the values;
not more often for larger clouds.

Axes: N points, T anchors of a chunk, C points of their cloud or window, E pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from hepdata.loader.batch import PairTensors
from hept.devices.precision import exact_products
from hept.losses.infonce import gather_rows
from hept.losses.particles import Rows

# Distances held at a time: on a GPU a chunk costs some launches.
CHUNK, GPU_CHUNK = 2**22, 2**25


def count_partners(particle: Tensor, is_anchor: Tensor) -> Tensor:
    """(N,) other points of the particle of every anchor, 0 for other points; the host does not wait."""
    size = torch.zeros_like(particle).index_add_(0, particle, torch.ones_like(particle))
    return torch.where(is_anchor, size[particle] - 1, 0)


def pair_within_particles(particle: Tensor, is_anchor: Tensor) -> PairTensors:
    """For every anchor all other points of its particle; none for other points.

    Args:
        particle: (N,) 0, 1, … as from `number_particles`.
        is_anchor: (N,) bool.
    """
    points = torch.arange(len(particle), device=particle.device)
    ordered, members = torch.sort(particle, stable=True)
    place = torch.empty_like(members).scatter_(0, members, points)
    ptr = _lay_out(count_partners(particle, is_anchor))
    row = torch.repeat_interleave(points, ptr.diff())
    position = (
        torch.searchsorted(ordered, particle)[row] + torch.arange(len(row), device=row.device) - ptr[row]
    )
    # Skip the anchor itself.
    position += position >= place[row]
    return PairTensors(ptr, members[position].int())


@torch.no_grad()
def mine_negatives(
    embeddings: Tensor,
    particle: Tensor,
    is_anchor: Tensor,
    offsets: Tensor,
    *,
    n_negatives: int,
    window: int | None = None,
) -> PairTensors:
    """For every anchor the nearest points of other particles in the embedding: the hardest negatives.

    Args:
        embeddings: (N, D).
        particle: (N,) equal within a particle.
        is_anchor: (N,) bool.
        offsets: (B + 1,) where clouds begin and end.
        n_negatives: Of an anchor, at most.
        window: Search only among so many points before and after the anchor, which are near it in the
            (η, φ) plane; None: in its whole cloud.
    """
    x = embeddings.detach().float()
    anchors = is_anchor.nonzero().squeeze(1)
    # All that the host must know, in one copy.
    known: list[int] = torch.cat([offsets.to(anchors), anchors]).tolist()
    borders, places = known[: len(offsets)], known[len(offsets) :]
    most = CHUNK if x.device.type == "cpu" else GPU_CHUNK
    found = [torch.empty(3, 0, dtype=torch.int64, device=x.device)]
    with exact_products():
        for first, last, near in _cut(places, borders, most, window):
            found.append(_mine_chunk(x, particle, anchors[first:last], near, n_negatives, window))
    row, partner, is_there = torch.cat(found, 1)
    kept = is_there.nonzero().squeeze(1)
    return _make_rows(row[kept], partner[kept], len(x))


def _cut(
    places: list[int], borders: list[int], most: int, window: int | None
) -> Iterator[tuple[int, int, slice]]:
    """Anchors `first` to `last` of one cloud at a time, and the points among which they search.

    Args:
        places: Of the anchors, ascending.
        borders: Of the clouds.
        most: Distances of a chunk.
        window: See `mine_negatives`.
    """
    for begin, end in pairwise(borders):
        width = end - begin if window is None else min(end - begin, 2 * window)
        step, stop = max(1, most // max(width, 1)), bisect_left(places, end)
        for first in range(bisect_left(places, begin), stop, step):
            last = min(first + step, stop)
            if window is None:
                yield first, last, slice(begin, end)
            else:
                low, high = places[first] - window, places[last - 1] + window + 1
                yield first, last, slice(max(begin, low), min(end, high))


def _mine_chunk(
    x: Tensor, particle: Tensor, anchors: Tensor, near: slice, n_negatives: int, window: int | None
) -> Tensor:
    """(3, E) anchors, their partners, and whether there are such partners."""
    centre = x[anchors].mean(0)
    a, b = x[anchors] - centre, x[near] - centre
    # The anchor's own square does not change the order.
    distance = torch.addmm(b.square().sum(1), a, b.T, alpha=-2)  # (T, C)
    distance.masked_fill_(particle[anchors][:, None] == particle[near], torch.inf)
    if window is not None:
        place = torch.arange(near.start, near.stop, device=x.device)
        distance.masked_fill_((anchors[:, None] - place).abs() > window, torch.inf)
    nearest = distance.topk(min(n_negatives, len(b)), dim=1, largest=False)
    pairs = (
        anchors[:, None].expand_as(nearest.indices),
        nearest.indices + near.start,
        nearest.values.isfinite(),
    )
    return torch.stack([each.flatten() for each in pairs])


def join_pairs(first: Rows, second: Rows, is_anchor: Tensor) -> PairTensors:
    """The anchors' partners in either list, each once."""
    anchors = is_anchor.nonzero().squeeze(1)
    keys = []
    for rows in (first, second):
        row, partner = gather_rows(rows.ptr.long(), rows.idx, anchors)
        keys.append(anchors[row] * len(is_anchor) + partner)
    key = torch.unique(torch.cat(keys))
    return _make_rows(key // len(is_anchor), key % len(is_anchor), len(is_anchor))


def _make_rows(row: Tensor, partner: Tensor, n_points: int) -> PairTensors:
    """Pairs that are sorted by row."""
    length = torch.zeros(n_points, dtype=torch.int64, device=row.device)
    return PairTensors(_lay_out(length.index_add_(0, row, torch.ones_like(row))), partner.int())


def _lay_out(length: Tensor) -> Tensor:
    """(N + 1,) where lists of these lengths (N,) begin and end."""
    return torch.cat([length.new_zeros(1), length.cumsum(0)])
