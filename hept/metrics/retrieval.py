"""AP@k: do the nearest neighbours of a hit in embedding space come from the same particle?

Embeddings and particle ids of one cloud enter, mean precisions leave. For a query hit u with k_u other hits
of its particle, Prec@k_u is the part of the k_u hits nearest to u that are of its particle (paper, Sec. 5).

Exact, in chunks of queries. Float32 products, in tiles that fit the cache, give the smallest distance to
each small group of points; the points of the groups with the smallest minima are candidates. Their
distances are computed in float64, and a row is settled where the rounding of float32 cannot have hidden a
nearer point; the few other rows are computed whole in float64. A point is never its own neighbour, whatever
coincides with it, and ties at the k-th distance count by the part of the tied points that belong to the
particle.

Axes: N points, Q queries of a chunk, K candidates, D dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from hept.devices.threads import share_out

GROUP = 16
TILE = 2048
CHUNK = 256
# Partners up to which a chunk has all its queries: candidates take memory by the product of both.
WIDE = 256
FIXED_K = 19
SPARE = 5
# Rounding of a float32 product of some dozen terms, relative to squared lengths; generous.
ROUNDING = 2e-5
FAR = 1e12


@dataclass(frozen=True)
class Retrieval:
    """Means over the queries of a cloud; NaN where there is no query.

    Attributes:
        ap: AP@k, k each query's own number of partners.
        precision: Precision among the `FIXED_K` nearest.
        recall: Part of the partners among the `FIXED_K` nearest.
        n_queries: Queries: hits in the mask with at least one partner.
    """

    ap: float
    precision: float
    recall: float
    n_queries: int


def average_precision_at_k(embeddings: Tensor, particle_id: Tensor, is_query: Tensor) -> Retrieval:
    """AP@k, precision@19 and recall@19 of one cloud.

    Args:
        embeddings: (N, D).
        particle_id: (N,) int64; 0 is noise, which belongs to no particle.
        is_query: (N,) bool, which hits to ask for (by pt and reconstructability); all hits can be retrieved.

    Raises:
        ValueError: Lengths disagree, or an embedding is not finite.
    """
    if not len(embeddings) == len(particle_id) == len(is_query):
        lengths = f"{len(embeddings)}, {len(particle_id)} and {len(is_query)}"
        raise ValueError(f"embeddings, particle_id and is_query have {lengths} points")
    if not torch.isfinite(embeddings).all():
        raise ValueError("embeddings hold values that are not finite; they must be finite")
    _, particle, size = torch.unique(particle_id, return_inverse=True, return_counts=True)
    n_partners = (size[particle] - 1).masked_fill(particle_id == 0, 0)
    queries = (is_query & (n_partners > 0)).nonzero().squeeze(1)
    if len(queries) == 0:
        return Retrieval(float("nan"), float("nan"), float("nan"), 0)
    # Queries with like k go together: one particle with many hits does not widen the search of all others.
    queries = queries[torch.argsort(n_partners[queries], stable=True)]
    found_k = torch.zeros(len(queries), dtype=torch.float64)
    found_fixed = torch.zeros(len(queries), dtype=torch.float64)
    cloud = _Cloud(_bring_to_size(embeddings.detach().double()), particle)

    chunks = _cut_into_chunks(n_partners[queries].tolist())

    def count_chunks(numbers: Iterable[int]) -> None:
        # One buffer for all products: fresh memory costs more than filling it.
        buffer = torch.empty(CHUNK * TILE, dtype=torch.float32)
        for number in numbers:
            rows = chunks[number]
            asked = queries[rows]
            found_k[rows], found_fixed[rows] = cloud.count_found(asked, n_partners[asked], buffer)

    share_out(count_chunks, len(chunks), embeddings.device)
    k_all = n_partners[queries].double()
    return Retrieval(
        ap=float((found_k / k_all).mean()),
        precision=float((found_fixed / FIXED_K).mean()),
        recall=float((found_fixed / k_all).mean()),
        n_queries=len(queries),
    )


def _cut_into_chunks(k: list[int]) -> list[slice]:
    """Stretches of at most `CHUNK` queries, whose numbers of partners ascend; fewer where these are large."""
    chunks: list[slice] = []
    begin = 0
    while begin < len(k):
        end = min(begin + CHUNK, len(k))
        end = min(end, begin + max(1, CHUNK * WIDE // max(k[end - 1], WIDE)))
        chunks.append(slice(begin, end))
        begin = end
    return chunks


def _bring_to_size(x: Tensor) -> Tensor:
    """The points with the largest coordinate between ½ and 1: squares of any other size may leave float32.

    A power of two, so that nothing is rounded and every order and tie stays.
    """
    exponent = math.frexp(float(x.abs().max()))[1]
    return x * 2.0 ** -max(exponent, -1000)


class _Cloud:
    """The points of a cloud, laid out for many nearest-neighbour questions.

    Args:
        x: (N, D) float64, none of it beyond 1.
        particle: (N,) whose hits they are.
    """

    def __init__(self, x: Tensor, particle: Tensor) -> None:
        self.n_points = len(x)
        # The last tile is filled up with points far away.
        n_padded = -len(x) % TILE
        self.x = torch.cat([x, x.new_full((n_padded, x.shape[1]), FAR)])
        self.particle = torch.cat([particle, particle.new_full((n_padded,), -1)])
        # Rounding grows with the distance from the origin.
        self.near = (self.x - x.mean(0)).float()
        self.square = self.near.square().sum(1)
        # |b|² − 2 a·b as one product of [−2a, 1] and [b, |b|²].
        right = torch.cat([self.near, self.square[:, None]], 1)
        self.tiles = [tile.T.contiguous() for tile in torch.split(right, TILE)]  # (D + 1, TILE) each

    def count_found(self, queries: Tensor, k: Tensor, buffer: Tensor) -> tuple[Tensor, Tensor]:
        """(Q,) partners among the k nearest, and among the `FIXED_K` nearest."""
        fixed = torch.full_like(k, min(FIXED_K, self.n_points - 1))
        n_wanted = max(int(k.max()), FIXED_K) + SPARE
        candidates, reach = self._candidates(queries, n_wanted, buffer)  # (Q, K), (Q,)
        a = self.x[queries]
        distance = (self.x[candidates] - a[:, None]).square().sum(2)
        distance.masked_fill_(candidates == queries[:, None], torch.inf)
        distance, order = distance.sort(dim=1)
        is_partner = (self.particle[candidates] == self.particle[queries][:, None]).gather(1, order)
        kth = [distance.gather(1, each[:, None] - 1) for each in (k, fixed)]
        found = [_count(distance, is_partner, each, at) for each, at in zip((k, fixed), kth, strict=True)]
        rows = (reach <= torch.maximum(*kth).squeeze(1)).nonzero().squeeze(1)
        found[0][rows], found[1][rows] = self._count_whole(queries[rows], k[rows], fixed[rows])
        return found[0], found[1]

    def _candidates(self, queries: Tensor, n_wanted: int, buffer: Tensor) -> tuple[Tensor, Tensor]:
        """Points that are probably nearest, and the distance² below which no other point can be."""
        if n_wanted >= self.n_points:
            everything = torch.arange(self.n_points).expand(len(queries), -1)
            return everything, torch.full((len(queries),), torch.inf, dtype=torch.float64)
        points, nearest_outside = self._members_of_nearest_groups(queries, n_wanted, buffer)
        a, square = self.near[queries], self.square[queries].double()
        rows = self.near.index_select(0, points.flatten()).view(*points.shape, -1)
        distance, position = (rows - a[:, None]).square_().sum(2).topk(n_wanted, dim=1, largest=False)
        reach = torch.minimum(distance[:, -1].double(), nearest_outside.double() + square)
        return points.gather(1, position), reach - ROUNDING * (reach.abs() + square)

    def _members_of_nearest_groups(
        self, queries: Tensor, n_wanted: int, buffer: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(Q, n_wanted · GROUP) points, and the smallest value of the last group among them."""
        a = self.near[queries]
        left = torch.cat([-2 * a, torch.ones_like(a[:, :1])], 1)
        product = buffer[: len(a) * TILE].view(len(a), TILE)
        minima = []
        for tile in self.tiles:
            torch.mm(left, tile, out=product)  # squared distance less |a|²
            # Column c of a tile belongs to its group c mod (TILE / GROUP).
            minima.append(product.view(len(a), GROUP, TILE // GROUP).amin(1))
        smallest, group = _smallest(torch.cat(minima, 1), n_wanted)
        tile_of, in_tile = group // (TILE // GROUP), group % (TILE // GROUP)
        members = torch.arange(GROUP) * (TILE // GROUP)
        points = ((tile_of * TILE + in_tile)[:, :, None] + members).flatten(1)
        has_all = points.shape[1] == len(self.x)
        return points, smallest.amax(1).fill_(torch.inf) if has_all else smallest.amax(1)

    def _count_whole(self, queries: Tensor, k: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
        """The same from all distances, each by itself."""
        found = torch.zeros(len(queries), 2, dtype=torch.float64)
        for row, query in enumerate(queries.tolist()):
            distance = (self.x[: self.n_points] - self.x[query]).square().sum(1)
            distance[query] = torch.inf
            is_partner = self.particle[: self.n_points] == self.particle[query]
            for position, each in enumerate((k[row], fixed[row])):
                kth = distance.kthvalue(int(each)).values
                found[row, position] = _count(distance[None], is_partner[None], each[None], kth[None, None])[
                    0
                ]
        return found[:, 0], found[:, 1]


def _smallest(rows: Tensor, n_wanted: int) -> tuple[Tensor, Tensor]:
    """Values and columns of the n smallest entries of every row, by way of minima of eight columns."""
    width = rows.shape[1] // 8
    if width <= 2 * n_wanted or rows.shape[1] % 8:
        found = rows.topk(min(n_wanted, rows.shape[1]), dim=1, largest=False, sorted=False)
        return found.values, found.indices
    best = rows.view(len(rows), 8, width).amin(1).topk(n_wanted, dim=1, largest=False, sorted=False).indices
    columns = (best[:, None] + torch.arange(8)[:, None] * width).flatten(1)
    found = rows.gather(1, columns).topk(n_wanted, dim=1, largest=False, sorted=False)
    return found.values, columns.gather(1, found.indices)


def _count(distance: Tensor, is_partner: Tensor, k: Tensor, kth: Tensor) -> Tensor:
    """(Q,) partners among the k nearest, given the k-th distance (Q, 1); a tie at it counts by its mean."""
    is_closer, is_tied = distance < kth, distance == kth
    n_places = k - is_closer.sum(1)
    share = (is_tied & is_partner).sum(1) / is_tied.sum(1)
    return (is_closer & is_partner).sum(1) + n_places * share.double()
