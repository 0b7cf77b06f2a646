"""Pairs made in training: embeddings and labels enter, positive and negative partners of anchors leave.

On a GPU the host waits for the device a few times a batch, since the number of pairs depends on the values.

Axes: N points, T anchors of a chunk, C points of their cloud or window, E pairs.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from hepdata.loader.batch import PairTensors
from hept.losses.infonce import gather_rows
from hept.losses.particles import Rows

# Distances in memory at a time.
CHUNK = 2**22


def pair_within_particles(particle: Tensor, is_anchor: Tensor) -> PairTensors:
    """For every anchor all other points of its particle; none for other points.

    Args:
        particle: (N,) 0, 1, … as from `number_particles`.
        is_anchor: (N,) bool.
    """
    points = torch.arange(len(particle), device=particle.device)
    members = torch.sort(particle, stable=True).indices
    size = torch.zeros_like(particle).index_add_(0, particle, torch.ones_like(particle))
    ptr = torch.cat([size.new_zeros(1), size.cumsum(0)])
    anchors = points[is_anchor]
    row, partner = gather_rows(ptr, members, particle[anchors])
    row = anchors[row]
    is_other = row != partner
    return _make_rows(row[is_other], partner[is_other], len(particle))


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
    borders = torch.searchsorted(anchors, offsets.to(anchors)).tolist()
    clouds = pairwise(offsets.tolist())
    rows, partners = [anchors[:0]], [anchors[:0]]
    for (begin, end), (first, last) in zip(clouds, pairwise(borders), strict=True):
        width = end - begin if window is None else min(end - begin, 2 * window)
        for chunk in torch.split(anchors[first:last], max(1, CHUNK // max(width, 1))):
            if len(chunk):
                row, partner = _mine_chunk(x, particle, chunk, (begin, end), n_negatives, window)
                rows.append(row)
                partners.append(partner)
    return _make_rows(torch.cat(rows), torch.cat(partners), len(x))


def _mine_chunk(
    x: Tensor, particle: Tensor, anchors: Tensor, cloud: tuple[int, int], n_negatives: int, window: int | None
) -> tuple[Tensor, Tensor]:
    begin, end = cloud
    if window is not None:
        begin, end = max(begin, int(anchors[0]) - window), min(end, int(anchors[-1]) + window + 1)
    centre = x[anchors].mean(0)
    a, b = x[anchors] - centre, x[begin:end] - centre
    # The anchor's own square does not change the order.
    distance = torch.addmm(b.square().sum(1), a, b.T, alpha=-2)  # (T, C)
    distance.masked_fill_(particle[anchors][:, None] == particle[begin:end], torch.inf)
    if window is not None:
        place = torch.arange(begin, end, device=x.device)
        distance.masked_fill_((anchors[:, None] - place).abs() > window, torch.inf)
    nearest = distance.topk(min(n_negatives, end - begin), dim=1, largest=False)
    slot, column = nearest.values.isfinite().nonzero(as_tuple=True)
    return anchors[slot], nearest.indices[slot, column] + begin


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
    length = torch.zeros(n_points, dtype=torch.int64, device=row.device).index_add_(
        0, row, torch.ones_like(row)
    )
    return PairTensors(torch.cat([length.new_zeros(1), length.cumsum(0)]), partner.int())
