"""InfoNCE over stored pair lists: embeddings and CSR pairs enter, one number and its gradient leave.

For an anchor u with a positive v and negatives n (paper, Appendix A.3):

    L(u, v) = −log[ exp(l_uv) / (exp(l_uv) + Σ_n exp(l_un)) ],

averaged over the pairs of a particle, then over particles. The logit l is a bounded function of the
distance d: `published` exp(−d / (2·0.75²)) / τ, as in the authors' code; `paper` exp(−d² / τ), as in the
paper's equation.

Points are ordered along a space-filling curve, so consecutive anchors share most of their negatives. A tile
of anchors against the union of their negatives is therefore a small dense product with few masked entries; no
pair list is sorted or gathered in full. One pass over the tiles computes value and gradient, so the backward
pass needs only the gradient of the embeddings. On a GPU one kernel does the same anchor by anchor, see
`hept.losses.triton_pairs`.

Axes: N points, E pairs, T anchors of a tile, U points that are a negative of at least one of them, D
    dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hept.devices.precision import find_widest
from hept.devices.threads import use_threads
from hept.devices.triton_support import can_run_triton
from hept.losses.fused import UNIT, sum_pairs
from hept.losses.particles import Rows, weigh_anchors

Similarity = Literal["published", "paper"]
WIDTH = 2 * 0.75**2
TILE = 64
# exp(−1/τ) must stay a normal float32 number.
SMALLEST_TAU = 0.0125


@dataclass(frozen=True)
class RandomNegatives:
    """Further negatives, drawn from the whole cloud of the anchor.

    On a CPU all anchors of a tile share one draw; on a GPU each anchor has its own. Points of the anchor's
    particle, including the anchor, do not count as its negatives.

    Attributes:
        fraction: Number of draws, as a fraction of the anchor's stored negatives.
        offsets: (B + 1,) where the clouds begin and end on the point axis.
        generator: Random generator of the host.
        seed: Seed of the draws on a GPU, below 2³¹; drawn from the generator if None.
    """

    fraction: float
    offsets: Tensor
    generator: torch.Generator | None = None
    seed: int | None = None

    def choose_seed(self) -> int:
        """The seed of the draws on a GPU, which do not depend on the order of execution."""
        return int(torch.randint(2**31, (), generator=self.generator)) if self.seed is None else self.seed


def info_nce(
    embeddings: Tensor,
    positives: Rows,
    negatives: Rows,
    particle: Tensor,
    is_anchor: Tensor,
    *,
    tau: float = 0.05,
    similarity: Similarity = "published",
    random_negatives: RandomNegatives | None = None,
    normaliser: Tensor | float | None = None,
) -> Tensor:
    """The InfoNCE loss of a batch of clouds; differentiable once in the embeddings.

    The pairs of an anchor without negatives count with a loss of zero. A batch without positive pairs has
    zero loss and zero gradient.

    Args:
        embeddings: (N, D).
        positives: Same-particle partners of every point.
        negatives: Negative partners of every point.
        particle: (N,) int64, equal within a particle, different between particles (see `number_particles`).
        is_anchor: (N,) bool, whether the positives of a point enter the loss.
        tau: Temperature.
        similarity: `published` or `paper`.
        random_negatives: Further negatives to draw.
        normaliser: Divide the sum over particles by this instead of their number (the particles of all
            processes and accumulated batches).

    Raises:
        ValueError: Shapes disagree, the similarity is unknown, or tau is too small.
    """
    n_points = len(embeddings)
    for name, length in (
        ("positives.ptr", len(positives.ptr) - 1),
        ("negatives.ptr", len(negatives.ptr) - 1),
        ("particle", len(particle)),
        ("is_anchor", len(is_anchor)),
    ):
        if length != n_points:
            raise ValueError(f"{name} is for {length} points; embeddings have {n_points}")
    if similarity not in ("published", "paper"):
        raise ValueError(f"similarity is {similarity!r}; it must be 'published' or 'paper'")
    if tau < SMALLEST_TAU:
        raise ValueError(f"tau is {tau}; it must be at least {SMALLEST_TAU}")
    if embeddings.dtype not in (torch.float32, torch.float64):
        embeddings = embeddings.float()
    loss: Tensor = _InfoNCE.apply(  # type: ignore[no-untyped-call]
        embeddings,
        positives,
        negatives,
        particle,
        is_anchor,
        _Logit(similarity, tau),
        random_negatives,
        normaliser,
    )
    return loss


@dataclass(frozen=True)
class _Logit:
    """The logit as a function of distance, shifted so that its maximum is 0, and its derivative over d."""

    similarity: Similarity
    tau: float

    def __call__(self, d2: Tensor) -> tuple[Tensor, Tensor]:
        """(l − l_max, dl/dd / d) of squared distances; the second is 0 at d = 0."""
        if self.similarity == "paper":
            sim = torch.exp(d2 * (-1 / self.tau))
            return sim - 1, sim * (-2 / self.tau)
        d = d2.clamp_(min=0).sqrt_()
        sim = torch.exp(d * (-1 / WIDTH))
        slope = (sim / d).mul_(-1 / (WIDTH * self.tau)).masked_fill_(d == 0, 0.0)
        return sim.sub_(1).mul_(1 / self.tau), slope


class _InfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        positives: Rows,
        negatives: Rows,
        particle: Tensor,
        is_anchor: Tensor,
        logit: _Logit,
        random_negatives: RandomNegatives | None,
        normaliser: Tensor | float | None,
    ) -> Tensor:
        if can_run_triton(x):
            total, grad = _fuse(
                x, positives, negatives, particle, is_anchor, logit, random_negatives, normaliser
            )
            ctx.save_for_backward(grad)
            return total
        anchors = (is_anchor & (positives.ptr.diff() > 0)).nonzero().squeeze(1)
        pair_weight = _weigh_pairs(anchors, positives, particle, normaliser)
        total = x.new_zeros((), dtype=find_widest(x.device))
        grad = torch.zeros_like(x, dtype=total.dtype)
        columns = _Columns(negatives, len(x))
        # The operators of a tile take microseconds: several threads gain nothing, and are much slower if
        # another process delays one of them.
        with use_threads(1):
            for tile in _cut(anchors, random_negatives):
                total += _add_tile(
                    x, tile, pair_weight[tile], positives, columns, particle, logit, random_negatives, grad
                )
        ctx.save_for_backward(grad.to(x.dtype))
        return total.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return (grad * grad_output, *([None] * 7))


def _fuse(
    x: Tensor,
    positives: Rows,
    negatives: Rows,
    particle: Tensor,
    is_anchor: Tensor,
    logit: _Logit,
    random_negatives: RandomNegatives | None,
    normaliser: Tensor | float | None,
) -> tuple[Tensor, Tensor]:
    """Loss and gradient in one kernel, without synchronisation."""
    weight, n_particles = weigh_anchors(positives.ptr.diff(), particle, is_anchor)
    seed, fraction, offsets = 0, 0.0, None
    if random_negatives is not None:
        fraction, offsets = random_negatives.fraction, random_negatives.offsets
        seed = random_negatives.choose_seed()
    lists = positives.ptr, positives.idx, negatives.ptr, negatives.idx
    is_published = logit.similarity == "published"
    # Exact sums do not depend on the order of execution, but move more bytes.
    is_exact = torch.are_deterministic_algorithms_enabled()
    losses, grad = sum_pairs(
        x.detach(), *lists, particle, weight, offsets, seed, fraction, logit.tau, is_published, is_exact
    )
    divisor = n_particles.clamp(min=1) if normaliser is None else normaliser
    total = losses.sum(dtype=torch.float64) / divisor
    if is_exact:
        grad = grad.double() / UNIT
    return total.to(x.dtype), (grad / divisor).to(x.dtype)


def _weigh_pairs(
    anchors: Tensor, positives: Rows, particle: Tensor, normaliser: Tensor | float | None
) -> Tensor:
    """(N,) weight of each positive pair of an anchor: 1 / (pairs of the particle · particles)."""
    weight = torch.zeros(len(particle), dtype=find_widest(particle.device), device=particle.device)
    if len(anchors) == 0:
        return weight
    numbers, inverse = torch.unique(particle[anchors], return_inverse=True)
    # Integers: the sum is the same in any order.
    n_pairs = torch.zeros_like(numbers).index_add_(0, inverse, positives.ptr.diff()[anchors].long())
    divisor = len(n_pairs) if normaliser is None else normaliser
    weight[anchors] = 1 / (n_pairs[inverse].to(weight.dtype) * divisor)
    return weight


def _cut(anchors: Tensor, random_negatives: RandomNegatives | None) -> Iterator[Tensor]:
    """Tiles of consecutive anchors; with random negatives, each tile stays within one cloud."""
    if random_negatives is None:
        yield from torch.split(anchors, TILE) if len(anchors) else ()
        return
    borders = torch.searchsorted(anchors, random_negatives.offsets.to(anchors)).tolist()
    for begin, end in itertools.pairwise(borders):
        yield from torch.split(anchors[begin:end], TILE) if end > begin else ()


class _Columns:
    """The union of the negatives of a tile of anchors, and which of them belong to which anchor."""

    def __init__(self, negatives: Rows, n_points: int) -> None:
        self.ptr, self.idx = negatives.ptr.long(), negatives.idx
        self.is_in_union = torch.zeros(n_points, dtype=torch.bool, device=self.idx.device)
        self.slot = torch.zeros(n_points, dtype=torch.int64, device=self.idx.device)

    def of(self, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """(U,) points and (T, U) bool."""
        rows, partners = gather_rows(self.ptr, self.idx, anchors)
        self.is_in_union[partners] = True
        union = self.is_in_union.nonzero().squeeze(1)
        self.is_in_union[union] = False
        self.slot[union] = torch.arange(len(union), device=union.device)
        is_negative = torch.zeros(len(anchors) * len(union), dtype=torch.bool, device=union.device)
        is_negative[rows * len(union) + self.slot[partners]] = True
        return union, is_negative.view(len(anchors), len(union))


def gather_rows(ptr: Tensor, idx: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of some anchors: for each pair, the anchor's position in `anchors`, and the partner."""
    begin, length = ptr[anchors], ptr[anchors + 1] - ptr[anchors]
    rows = torch.repeat_interleave(torch.arange(len(anchors), device=ptr.device), length)
    ends = length.cumsum(0)
    position = torch.arange(len(rows), device=ptr.device) + (begin - ends + length)[rows]
    return rows, idx[position].long()


def _add_tile(
    x: Tensor,
    anchors: Tensor,
    pair_weight: Tensor,
    positives: Rows,
    columns: _Columns,
    particle: Tensor,
    logit: _Logit,
    random_negatives: RandomNegatives | None,
    grad: Tensor,
) -> Tensor:
    """The tile's part of the loss; its gradient is added to `grad`."""
    union, is_negative = columns.of(anchors)
    if random_negatives is not None:
        drawn = _draw(anchors, is_negative, random_negatives)
        union = torch.cat([union, drawn])
        is_negative = torch.cat([is_negative, particle[anchors][:, None] != particle[drawn]], dim=1)

    # Sums are in float64, where the device has it; the exponentials are in the precision of x.
    wide = grad.dtype
    centre = x[anchors].to(wide).mean(0)
    a = x[anchors].to(wide) - centre  # (T, D)
    b = x[union].to(wide) - centre  # (U, D)
    shifted, slope = logit(_square_distances(a, b).to(x.dtype))  # (T, U)
    weight = shifted.exp_().mul_(is_negative)
    denominator = weight.sum(1, dtype=wide)  # (T,)

    row, partner = gather_rows(positives.ptr.long(), positives.idx, anchors)
    difference = x[anchors[row]].to(wide) - x[partner].to(wide)
    l_pos, slope_pos = logit(difference.square().sum(1))
    # −log(e^l / (e^l + S)) = softplus(log S − l), which is 0 where there is no negative.
    gap = denominator.log()[row] - l_pos
    pull = pair_weight[row] * torch.sigmoid(gap)  # −dL/dl of a positive pair
    push = torch.zeros_like(denominator).index_add_(0, row, pull)  # dL/d(log S) of an anchor
    scale = torch.where(denominator > 0, push / denominator, 0.0)

    force = weight.mul_(slope).mul_(scale.to(x.dtype)[:, None]).to(wide)  # (T, U): dL/dd / d
    grad.index_add_(0, anchors, force.sum(1, keepdim=True) * a - force @ b)
    grad.index_add_(0, union, force.sum(0)[:, None] * b - force.T @ a)
    force_pos = (-pull * slope_pos)[:, None] * difference
    grad.index_add_(0, anchors[row], force_pos)
    grad.index_add_(0, partner, -force_pos)
    return (pair_weight[row] * torch.nn.functional.softplus(gap)).sum()


def _square_distances(a: Tensor, b: Tensor) -> Tensor:
    """(T, U) of rows (T, D) and (U, D)."""
    if a.dtype == torch.float32:
        # |a|² + |b|² − 2ab is a small difference of large numbers.
        return (a[:, None] - b).square().sum(-1)
    return torch.addmm(a.square().sum(1, keepdim=True) + b.square().sum(1), a, b.T, alpha=-2)


def _draw(anchors: Tensor, is_negative: Tensor, random_negatives: RandomNegatives) -> Tensor:
    """Draw random points of the anchors' cloud: `fraction` of the mean number of negatives of an anchor."""
    offsets = random_negatives.offsets
    cloud = int(torch.searchsorted(offsets, anchors[:1], right=True)) - 1
    begin, end = int(offsets[cloud]), int(offsets[cloud + 1])
    count = round(random_negatives.fraction * float(is_negative.sum()) / len(anchors))
    drawn = torch.randint(begin, end, (count,), generator=random_negatives.generator)
    return drawn.to(anchors.device)
