"""ScatterBrain (Chen et al. 2021): a low-rank estimate of all pairs, exact for pairs in a common hash block.

    A ≈ φ(q)·φ(k) for all pairs, + (exp(q·k) − φ(q)·φ(k)) for pairs that share a block in any table

The correction replaces the estimate for these pairs, so the sum stays unbiased.

Axes: H heads, N points, D dimensions, M random features, C tables, K blocks, S slots.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels.operands import Blocks
from hept.attention.kernels.plain import gather_slots, invert, return_to_points
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.block_attention import NOTHING
from hept.paper.systems.performer import (
    FEATURE_FLOOR,
    draw_orthogonal,
    greatest_of_cloud,
    log_features,
    sum_over_keys,
)
from hept.paper.systems.projections import multi_head
from hept.paper.systems.smyrf import sort_by_projection, transform


class ScatterBrainAttention(nn.Module):
    """Performer plus the blocks of SMYRF.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        block_size: Points per block.
        n_tables: Rounds of hashing.
        n_random: Random features.
    """

    def __init__(
        self, n_heads: int, dim: int, *, block_size: int = 100, n_tables: int = 2, n_random: int = 100
    ) -> None:
        super().__init__()
        self.block_size = block_size
        self.register_buffer("alpha", torch.randn(n_tables, n_heads, dim + 2))
        self.register_buffer("directions", draw_orthogonal(n_heads, n_random, dim))

    alpha: Tensor
    directions: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        blocks = cut_into_blocks(clouds, self.block_size)
        with torch.no_grad():
            hashed = transform(query, key, clouds)
            by_query, by_key = (sort_by_projection(z, self.alpha, clouds) for z in hashed)
        log_q = log_features(query, self.directions, "dot")
        log_k = log_features(key, self.directions, "dot")
        top_q = log_q.detach().amax(-1)  # (H, N)
        top_k = greatest_of_cloud(log_k.detach(), clouds)
        root = self.directions.shape[1] ** -0.5
        phi_q = ((log_q - top_q[..., None]).exp() + FEATURE_FLOOR) * root
        phi_k = ((log_k - top_k[..., None]).exp() + FEATURE_FLOOR) * root
        logits = [
            _exact(query, key, *orders, blocks, top_q + top_k)
            for orders in zip(by_query, by_key, strict=True)
        ]
        # A factor per query scales its largest exact weight to at most one.
        greatest = [
            return_to_points(one.detach().amax(-1), o, blocks)
            for one, o in zip(logits, by_query, strict=True)
        ]
        scale = torch.stack(greatest).amax(0).clamp(min=0)  # (H, N)
        summed, total = sum_over_keys(phi_q, phi_k, value, clouds)
        summed, total = summed * (-scale)[..., None].exp(), total * (-scale).exp()
        for table, one in enumerate(logits):
            multiplicity = count_meetings(by_query, by_key, table, blocks)
            q, k = (
                gather_slots(rows, order[table], blocks)
                for rows, order in ((phi_q, by_query), (phi_k, by_key))
            )
            shrink = gather_slots(scale, by_query[table], blocks)[..., None]
            correction = (one - shrink).exp() - (q @ k.mT) * (-shrink).exp()
            correction = correction * blocks.is_filled[:, None, :] / multiplicity
            v = gather_slots(value, by_key[table], blocks)
            summed = summed + return_to_points(correction @ v, by_query[table], blocks)
            total = total + return_to_points(correction.sum(-1), by_query[table], blocks)
        return summed / total.clamp(min=FEATURE_FLOOR**2)[..., None]


def _exact(
    query: Tensor, key: Tensor, by_query: Tensor, by_key: Tensor, blocks: Blocks, offset: Tensor
) -> Tensor:
    """q·k minus the logarithms of the factors removed from the features, in slots: (H, K, S, S)."""
    q, k = gather_slots(query, by_query, blocks), gather_slots(key, by_key, blocks)
    logits = q @ k.mT - gather_slots(offset, by_query, blocks)[..., None]
    return logits.masked_fill(~blocks.is_filled[:, None, :], NOTHING)


def count_meetings(by_query: Tensor, by_key: Tensor, table: int, blocks: Blocks) -> Tensor:
    """Number of tables in which the query and key of each pair of slots share a block: (H, K, S, S), ≥ 1."""
    size = blocks.position.shape[1]
    count: Tensor | int = 0
    for one in range(by_query.shape[0]):
        of_query = gather_slots(blocks.slot[invert(by_query[one])] // size, by_query[table], blocks)
        of_key = gather_slots(blocks.slot[invert(by_key[one])] // size, by_key[table], blocks)
        count = count + (of_query[..., :, None] == of_key[..., None, :]).long()
    return torch.as_tensor(count).clamp(min=1)


def make_scatterbrain(frame: Frame, width: int) -> AttentionFactory:
    """Make ScatterBrain with the sizes of a comparison: two tables of half blocks, 75 features for 100."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: ScatterBrainAttention(
            frame.n_heads,
            dim,
            block_size=max(2, frame.block_size // 2),
            n_tables=2,
            n_random=max(2, 3 * frame.block_size // 4),
        ),
    )
