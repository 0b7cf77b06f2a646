"""The loss by its definition, pair by pair, and small clouds for tests."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch


@dataclass(frozen=True)
class PairTensors:
    ptr: torch.Tensor
    idx: torch.Tensor


def to_rows(anchors, partners, n_points):
    order = torch.argsort(anchors * n_points + partners)
    ptr = torch.zeros(n_points + 1, dtype=torch.int64)
    ptr[1:] = torch.bincount(anchors, minlength=n_points).cumsum(0)
    return PairTensors(ptr, partners[order])


def literal_info_nce(x, positives, negatives, particle, is_anchor, tau=0.05, similarity="published"):
    """A loop over anchors and their pairs."""

    def logit(u, v):
        d = (x[u] - x[v]).norm()
        return torch.exp(-d / (2 * 0.75**2)) / tau if similarity == "published" else torch.exp(-(d**2) / tau)

    losses = {}
    for u in range(len(x)):
        if not is_anchor[u]:
            continue
        negative = negatives.idx[negatives.ptr[u] : negatives.ptr[u + 1]].tolist()
        for v in positives.idx[positives.ptr[u] : positives.ptr[u + 1]].tolist():
            denominator = torch.exp(logit(u, v)) + sum(torch.exp(logit(u, n)) for n in negative)
            losses.setdefault(int(particle[u]), []).append(-torch.log(torch.exp(logit(u, v)) / denominator))
    means = [torch.stack(pairs).mean() for pairs in losses.values()]
    return torch.stack(means).mean() if means else x.sum() * 0


def random_cloud(seed, n_points=60, n_particles=12, n_negatives=9, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    particle = torch.randint(0, n_particles, (n_points,), generator=generator)
    same = particle[:, None] == particle
    positives = (same & ~torch.eye(n_points, dtype=torch.bool)).nonzero().T
    is_negative = ~same & (torch.rand(n_points, n_points, generator=generator) < n_negatives / n_points)
    negatives = is_negative.nonzero().T
    return SimpleNamespace(
        x=torch.randn(n_points, 5, generator=generator, dtype=dtype) * 0.5,
        positives=to_rows(*positives, n_points),
        negatives=to_rows(*negatives, n_points),
        particle=particle,
        is_anchor=particle % 3 != 0,
    )


@pytest.fixture
def literal():
    return literal_info_nce


@pytest.fixture
def make_cloud():
    return random_cloud


@pytest.fixture
def make_rows():
    return to_rows
