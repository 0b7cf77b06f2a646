"""AP@k: do the nearest neighbours of a hit in embedding space come from the same particle?

Embeddings and particle ids of one cloud enter, mean precisions leave. For a query hit u with k_u other hits
of its particle, Prec@k_u is the part of the k_u hits nearest to u that are of its particle (paper, Sec. 5).

Exact, in chunks of queries: squared distances in float64; the k nearest of a row lie in the k column groups
with the smallest minima, so that only those are looked through. A point is never its own neighbour,
whatever coincides with it, and ties at the k-th distance count by the part of the tied points that belong
to the particle.

Axes: N points, Q queries of a chunk, G groups of columns, K candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 64
CHUNK_BYTES = 100_000_000
FIXED_K = 19


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
    x = embeddings.detach().double()
    _, particle, size = torch.unique(particle_id, return_inverse=True, return_counts=True)
    n_partners = (size[particle] - 1).masked_fill(particle_id == 0, 0)
    queries = (is_query & (n_partners > 0)).nonzero().squeeze(1)
    if len(queries) == 0:
        return Retrieval(float("nan"), float("nan"), float("nan"), 0)
    # Queries with like k go together: one particle with many hits does not widen the search of all others.
    queries = queries[torch.argsort(n_partners[queries], stable=True)]
    found_k = torch.zeros(len(queries), dtype=torch.float64)
    found_fixed = torch.zeros(len(queries), dtype=torch.float64)
    chunk = max(1, CHUNK_BYTES // (8 * len(x)))
    for begin in range(0, len(queries), chunk):
        rows = slice(begin, begin + chunk)
        k = n_partners[queries[rows]]
        found_k[rows], found_fixed[rows] = _count_found(x, particle, queries[rows], k)
    k_all = n_partners[queries].double()
    return Retrieval(
        ap=float((found_k / k_all).mean()),
        precision=float((found_fixed / FIXED_K).mean()),
        recall=float((found_fixed / k_all).mean()),
        n_queries=len(queries),
    )


def _count_found(x: Tensor, particle: Tensor, queries: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """(Q,) partners among the k nearest, and among the `FIXED_K` nearest."""
    n_wanted = min(max(int(k.max()), FIXED_K), len(x) - 1)
    fixed = torch.full_like(k, min(FIXED_K, len(x) - 1))
    a = x[queries]
    d2 = torch.addmm(
        x.square().sum(1), a, x.T, alpha=-2
    )  # (Q, N): squared distance less |a|², the same in a row
    d2[torch.arange(len(queries)), queries] = torch.inf
    n_candidates = min(n_wanted + 1, len(x))
    candidates = _nearest(d2, n_candidates)  # (Q, K)
    exact = (x[candidates] - a[:, None]).square().sum(2)
    exact = exact.masked_fill(candidates == queries[:, None], torch.inf)
    exact, order = exact.sort(dim=1)
    is_partner = (particle[candidates] == particle[queries][:, None]).gather(1, order)
    found = [_count(exact, is_partner, each) for each in (k, fixed)]
    # Where the k-th distance is also the last candidate's, the tie may go on outside: look at the whole row.
    kth = [exact.gather(1, each[:, None] - 1).squeeze(1) for each in (k, fixed)]
    rounding = 1e-13 * x.square().sum(1).max()
    is_open = (exact[:, -1] - torch.maximum(*kth) <= rounding) & (n_candidates < len(x))
    for row in is_open.nonzero().squeeze(1).tolist():
        whole = (x - a[row]).square().sum(1)
        whole[queries[row]] = torch.inf
        whole, order = whole.sort()
        partner = (particle == particle[queries[row]])[order]
        for position, each in enumerate((k, fixed)):
            found[position][row] = _count(whole[None], partner[None], each[row : row + 1])[0]
    return found[0], found[1]


def _nearest(d2: Tensor, n_wanted: int) -> Tensor:
    """(Q, n_wanted) columns of the smallest entries of every row, in no order."""
    n = d2.shape[1]
    n_groups = n // GROUP
    if n_groups <= 2 * n_wanted:
        return d2.topk(n_wanted, dim=1, largest=False, sorted=False).indices
    # Column c belongs to group c mod n_groups; what the last division leaves over is looked through whole.
    whole = d2[:, : n_groups * GROUP].view(len(d2), GROUP, n_groups)
    best = whole.amin(1).topk(n_wanted, dim=1, largest=False, sorted=False).indices  # (Q, n_wanted)
    columns = best[:, None] + torch.arange(GROUP)[None, :, None] * n_groups  # (Q, GROUP, n_wanted)
    rest = torch.arange(n_groups * GROUP, n).expand(len(d2), -1)
    columns = torch.cat([columns.flatten(1), rest], dim=1)
    smallest = d2.gather(1, columns).topk(n_wanted, dim=1, largest=False, sorted=False).indices
    return columns.gather(1, smallest)


def _count(distance: Tensor, is_partner: Tensor, k: Tensor) -> Tensor:
    """(Q,) partners among the k nearest of rows sorted by distance; a tie at the k-th counts by its mean."""
    kth = distance.gather(1, k[:, None] - 1)
    is_closer, is_tied = distance < kth, distance == kth
    n_places = k - is_closer.sum(1)
    share = (is_tied & is_partner).sum(1) / is_tied.sum(1)
    return (is_closer & is_partner).sum(1) + n_places * share.double()
