"""AP@k: do the nearest neighbours of a hit in embedding space come from the same particle?

Embeddings and particle ids of one cloud enter, mean precisions leave. For a query hit u with k_u other hits
of its particle, Prec@k_u is the part of the k_u hits nearest to u that are of its particle (paper, Sec. 6.2).

Exact, in chunks of queries, on the device of the embeddings; no matrix of all distances is made, and the host
waits for the device a few times a cloud, not for each chunk. Float32 products, in tiles, give the smallest
distance to each small group of points; the points of the groups with the smallest minima are candidates.
Their distances are computed in float64, and a row is settled where the rounding of float32 cannot have hidden
a nearer point; the few other rows are computed whole in float64 at the end. (Apple's GPUs have no float64:
float32 takes its place there.) A point is never its own neighbour, whatever coincides with it, and ties at
the k-th distance count by the part of the tied points that belong to the particle.

Axes: N points, Q queries of a chunk, K candidates, D dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from hept.devices.precision import exact_products, find_widest
from hept.devices.threads import share_out

GROUP = 16
# Points of a tile and queries of a chunk: on a CPU their product fits the cache, a GPU wants large products.
TILE, GPU_TILE = 2048, 16384
CHUNK, GPU_CHUNK = 256, 1024
# Partners up to which a chunk has all its queries: candidates take memory by the product of both.
WIDE = 256
# Distances that are held at a time for rows that are computed whole.
WHOLE, GPU_WHOLE = 2**21, 2**25
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


@dataclass(frozen=True)
class Neighbors:
    """How many partners each query of a cloud finds; all tensors are on the device of the embeddings.

    Attributes:
        query: (Q,) the points that asked.
        k: (Q,) partners of each.
        found_k: (Q,) of them among its k nearest.
        found_fixed: (Q,) of them among its `FIXED_K` nearest.
    """

    query: Tensor
    k: Tensor
    found_k: Tensor
    found_fixed: Tensor

    def average(self, is_query: Tensor) -> Tensor:
        """(4,) AP@k, precision and recall over the queries in a mask (N,), and their number; NaN without any.

        The host does not wait.
        """
        weight = is_query[self.query].to(self.found_k.dtype)
        values = torch.stack([self.found_k / self.k, self.found_fixed / FIXED_K, self.found_fixed / self.k])
        n_queries = weight.sum()
        return torch.cat([(values * weight).sum(1) / n_queries, n_queries[None]])


def average_precision_at_k(embeddings: Tensor, particle_id: Tensor, is_query: Tensor) -> Retrieval:
    """AP@k, precision@19 and recall@19 of one cloud.

    Args:
        embeddings: (N, D).
        particle_id: (N,) int64; 0 is noise, which belongs to no particle.
        is_query: (N,) bool, which hits to ask for (by pt and reconstructability); all hits can be retrieved.

    Raises:
        ValueError: Lengths disagree, or an embedding is not finite.
    """
    ap, precision, recall, n = find_neighbors(embeddings, particle_id, is_query).average(is_query).tolist()
    return Retrieval(ap, precision, recall, int(n))


def find_neighbors(embeddings: Tensor, particle_id: Tensor, is_query: Tensor) -> Neighbors:
    """What every query of a cloud with a partner finds; see `average_precision_at_k`."""
    if not len(embeddings) == len(particle_id) == len(is_query):
        lengths = f"{len(embeddings)}, {len(particle_id)} and {len(is_query)}"
        raise ValueError(f"embeddings, particle_id and is_query have {lengths} points")
    if not torch.isfinite(embeddings).all():
        raise ValueError("embeddings hold values that are not finite; they must be finite")
    device = embeddings.device
    exact = find_widest(device)
    _, particle, size = torch.unique(particle_id, return_inverse=True, return_counts=True)
    n_partners = (size[particle] - 1).masked_fill(particle_id == 0, 0)
    queries = (is_query & (n_partners > 0)).nonzero().squeeze(1)
    # Queries are grouped by k: one particle with many hits does not widen the search of all others.
    queries = queries[torch.argsort(n_partners[queries], stable=True)]
    found = torch.zeros(2, len(queries), dtype=exact, device=device)
    if len(queries):
        with torch.autocast(device.type, enabled=False), exact_products():
            _count_all(
                _Cloud(_bring_to_size(embeddings.detach().to(exact)), particle), queries, n_partners, found
            )
    return Neighbors(queries, n_partners[queries].to(exact), *found)


def _count_all(cloud: _Cloud, queries: Tensor, n_partners: Tensor, found: Tensor) -> None:
    """Fill `found` (2, Q): from candidates, then whole rows where these do not settle the answer."""
    device, k = queries.device, n_partners[queries].tolist()
    chunk = CHUNK if device.type == "cpu" else GPU_CHUNK
    chunks = _cut_into_chunks(k, chunk)
    is_settled = torch.zeros(len(queries), dtype=torch.bool, device=device)

    def count_chunks(numbers: Iterable[int]) -> None:
        # One buffer for all products: fresh memory costs more than filling it.
        buffer = torch.empty(chunk * cloud.tile, dtype=torch.float32, device=device)
        for number in numbers:
            rows = chunks[number]
            asked = queries[rows]
            found[:, rows], is_settled[rows] = cloud.count_found(
                asked, n_partners[asked], max(k[rows.stop - 1], FIXED_K), buffer
            )

    share_out(count_chunks, len(chunks), device)
    open_rows = is_settled.logical_not().nonzero().squeeze(1)
    n_rows = max(1, (WHOLE if device.type == "cpu" else GPU_WHOLE) // cloud.n_points)
    pieces = torch.split(open_rows, n_rows) if len(open_rows) else ()
    n_largest = max(k[-1], FIXED_K)

    def count_pieces(numbers: Iterable[int]) -> None:
        for number in numbers:
            asked = queries[pieces[number]]
            found[:, pieces[number]] = cloud.count_whole(asked, n_partners[asked], n_largest)

    share_out(count_pieces, len(pieces), device)


def _cut_into_chunks(k: list[int], chunk: int) -> list[slice]:
    """Slices of at most `chunk` queries sorted by number of partners; shorter where that number is large."""
    chunks: list[slice] = []
    begin = 0
    while begin < len(k):
        end = min(begin + chunk, len(k))
        end = min(end, begin + max(1, chunk * WIDE // max(k[end - 1], WIDE)))
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
    """The points of a cloud, prepared for many nearest-neighbour searches.

    Args:
        x: (N, D) float64 where the device has it, none of it beyond 1.
        particle: (N,) whose hits they are.
    """

    def __init__(self, x: Tensor, particle: Tensor) -> None:
        self.n_points = len(x)
        self.tile = TILE if x.device.type == "cpu" else min(GPU_TILE, -(-len(x) // GROUP) * GROUP)
        # The last tile is filled up with points far away.
        n_padded = -len(x) % self.tile
        self.x = torch.cat([x, x.new_full((n_padded, x.shape[1]), FAR)])
        self.particle = torch.cat([particle, particle.new_full((n_padded,), -1)])
        # Rounding grows with the distance from the origin.
        self.near = (self.x - x.mean(0)).float()
        self.square = self.near.square().sum(1)
        # |b|² − 2 a·b as one product of [−2a, 1] and [b, |b|²].
        right = torch.cat([self.near, self.square[:, None]], 1)
        self.tiles = [tile.T.contiguous() for tile in torch.split(right, self.tile)]  # (D + 1, tile) each

    def count_found(
        self, queries: Tensor, k: Tensor, n_largest: int, buffer: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(2, Q) partners among the k and the `FIXED_K` nearest, and whether this is certain, (Q,).

        Args:
            queries: (Q,).
            k: (Q,) partners of each.
            n_largest: The largest of them, or `FIXED_K`.
            buffer: Memory for the products.
        """
        fixed = torch.full_like(k, min(FIXED_K, self.n_points - 1))
        candidates, reach = self._candidates(queries, n_largest + SPARE, buffer)  # (Q, K), (Q,)
        a = self.x[queries]
        distance = (self.x[candidates] - a[:, None]).square().sum(2)
        distance.masked_fill_(candidates == queries[:, None], torch.inf)
        distance, order = distance.sort(dim=1)
        is_partner = (self.particle[candidates] == self.particle[queries][:, None]).gather(1, order)
        kth = [distance.gather(1, each[:, None] - 1) for each in (k, fixed)]
        found = [_count(distance, is_partner, each, at) for each, at in zip((k, fixed), kth, strict=True)]
        return torch.stack(found), reach > torch.maximum(*kth).squeeze(1)

    def _candidates(self, queries: Tensor, n_wanted: int, buffer: Tensor) -> tuple[Tensor, Tensor]:
        """Points that are probably nearest, and the distance² below which no other point can be."""
        if n_wanted >= self.n_points:
            everything = torch.arange(self.n_points, device=queries.device).expand(len(queries), -1)
            return everything, self.x.new_full((len(queries),), torch.inf)
        points, nearest_outside = self._members_of_nearest_groups(queries, n_wanted, buffer)
        a, square = self.near[queries], self.square[queries].to(self.x.dtype)
        rows = self.near.index_select(0, points.flatten()).view(*points.shape, -1)
        distance, position = (rows - a[:, None]).square_().sum(2).topk(n_wanted, dim=1, largest=False)
        reach = torch.minimum(distance[:, -1].to(square.dtype), nearest_outside.to(square.dtype) + square)
        return points.gather(1, position), reach - ROUNDING * (reach.abs() + square)

    def _members_of_nearest_groups(
        self, queries: Tensor, n_wanted: int, buffer: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(Q, n_wanted · GROUP) points, and the smallest value of the last group among them."""
        a = self.near[queries]
        left = torch.cat([-2 * a, torch.ones_like(a[:, :1])], 1)
        product, n_groups = buffer[: len(a) * self.tile].view(len(a), self.tile), self.tile // GROUP
        minima = []
        for tile in self.tiles:
            torch.mm(left, tile, out=product)  # squared distance less |a|²
            # Column c of a tile belongs to its group c mod n_groups.
            minima.append(product.view(len(a), GROUP, n_groups).amin(1))
        smallest, group = _smallest(torch.cat(minima, 1), n_wanted)
        tile_of, in_tile = group // n_groups, group % n_groups
        members = torch.arange(GROUP, device=group.device) * n_groups
        points = ((tile_of * self.tile + in_tile)[:, :, None] + members).flatten(1)
        has_all = points.shape[1] == len(self.x)
        return points, smallest.amax(1).fill_(torch.inf) if has_all else smallest.amax(1)

    def count_whole(self, queries: Tensor, k: Tensor, n_largest: int) -> Tensor:
        """(2, Q) the same from all distances."""
        distance = self.x.new_zeros(len(queries), self.n_points)
        for column in self.x.T:
            distance += (column[: self.n_points] - column[queries][:, None]).square_()
        distance.scatter_(1, queries[:, None], torch.inf)
        is_partner = self.particle[: self.n_points] == self.particle[queries][:, None]
        nearest = distance.topk(min(n_largest, self.n_points), dim=1, largest=False).values
        fixed = torch.full_like(k, min(FIXED_K, self.n_points - 1))
        found = [_count(distance, is_partner, n, nearest.gather(1, n[:, None] - 1)) for n in (k, fixed)]
        return torch.stack(found)


def _smallest(rows: Tensor, n_wanted: int) -> tuple[Tensor, Tensor]:
    """Values and columns of the n smallest entries of every row, by way of minima of eight columns."""
    width = rows.shape[1] // 8
    if width <= 2 * n_wanted or rows.shape[1] % 8:
        found = rows.topk(min(n_wanted, rows.shape[1]), dim=1, largest=False, sorted=False)
        return found.values, found.indices
    best = rows.view(len(rows), 8, width).amin(1).topk(n_wanted, dim=1, largest=False, sorted=False).indices
    columns = (best[:, None] + torch.arange(8, device=rows.device)[:, None] * width).flatten(1)
    found = rows.gather(1, columns).topk(n_wanted, dim=1, largest=False, sorted=False)
    return found.values, columns.gather(1, found.indices)


def _count(distance: Tensor, is_partner: Tensor, k: Tensor, kth: Tensor) -> Tensor:
    """(Q,) partners among the k nearest, given the k-th distance (Q, 1); a tie at it counts by its mean."""
    is_closer, is_tied = distance < kth, distance == kth
    n_places = k - is_closer.sum(1)
    share = (is_tied & is_partner).sum(1) / is_tied.sum(1)
    return (is_closer & is_partner).sum(1) + n_places * share.to(distance.dtype)
