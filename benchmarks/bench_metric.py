"""AP@k at the size of Tracking-60k, against the full distance matrix: time and memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.memory import added_bytes
from benchmarks.ratio import Ratio, seconds
from hept.metrics import average_precision_at_k

N_POINTS = 57_000
# The matrix of all queries would be 13 GB.
N_QUERIES = 8_000
MOST_HITS = 20


def make_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of tracks of about eight hits, particle ids, and a mask of the queries."""
    generator = torch.Generator().manual_seed(0)
    particle_id = torch.randint(1, N_POINTS // 8, (N_POINTS,), generator=generator)
    centre = torch.randn(N_POINTS // 8, 12, generator=generator) * 0.5
    noise = torch.randn(N_POINTS, 12, generator=generator) * 0.15
    return centre[particle_id] + noise, particle_id, torch.arange(N_POINTS) < N_QUERIES


def full_matrix(x: Tensor, particle_id: Tensor, is_query: Tensor) -> float:
    """AP@k from the distance of every query to every point; the nearest point is assumed to be the query."""
    queries = is_query.nonzero().squeeze(1)
    distance = torch.cdist(x[queries], x)
    nearest = distance.topk(MOST_HITS, dim=1, largest=False).indices[:, 1:]
    is_same = particle_id[nearest] == particle_id[queries][:, None]
    size = torch.bincount(particle_id)[particle_id[queries]] - 1
    is_counted = torch.arange(MOST_HITS - 1) < size[:, None]
    has_partner = (size > 0) & (size < MOST_HITS)
    return float(((is_same & is_counted).sum(1)[has_partner] / size[has_partner]).mean())


def prepare_everything() -> Callable[[], object]:
    """All 57,000 points as queries, for the measurement of memory."""
    x, particle_id, is_query = make_inputs()
    return lambda: average_precision_at_k(x, particle_id, torch.ones_like(is_query))


def run() -> list[Ratio]:
    """Time with the same queries on both sides; memory with all points as queries."""
    inputs = make_inputs()
    value, expected = average_precision_at_k(*inputs).ap, full_matrix(*inputs)
    fast, slow = seconds(lambda: average_precision_at_k(*inputs)), seconds(lambda: full_matrix(*inputs))
    memory = added_bytes(prepare_everything)
    return [
        Ratio(
            f"AP@k, full matrix / ours ({N_POINTS:,} points, {N_QUERIES:,} queries)",
            slow / fast,
            3.0,
            "at least",
            f"{slow:.2f} s / {fast:.2f} s; {expected:.4f} (short particles) / {value:.4f}",
        ),
        Ratio(
            f"AP@k peak memory, {N_POINTS:,} points and queries, GB",
            memory / 1e9,
            1.5,
            "at most",
            f"{memory / 1e9:.2f} GB",
        ),
    ]
