"""HyperAttention (Han et al. 2023): exact attention in blocks of a sorted hash, uniform samples for the rest.

The signs of P random projections form a code; codes are sorted in Gray order, in which neighbours differ by
one sign. Queries and keys are sorted separately and cut into blocks. Keys outside a query's block are
estimated by a sample of the cloud's keys, each with weight (number of keys) / (number of samples).

Axes: H heads, N points, D dimensions, M samples.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import cut_into_blocks
from hept.attention.kernels.operands import Blocks
from hept.attention.kernels.plain import invert
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.block_attention import NOTHING, attend_in_blocks, combine
from hept.paper.systems.projections import multi_head


class HyperAttention(nn.Module):
    """Sorted hyperplane hashing once, plus sampled keys.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        block_size: Points per block.
        n_samples: Keys sampled from each cloud.
        n_projections: Signs per code.
    """

    def __init__(
        self, n_heads: int, dim: int, *, block_size: int = 100, n_samples: int = 200, n_projections: int = 7
    ) -> None:
        super().__init__()
        self.block_size = block_size
        self.register_buffer("planes", torch.randn(n_heads, dim, n_projections))
        # Indices of the samples, as fractions of the cloud's size.
        self.register_buffer("fractions", torch.rand(n_samples))

    planes: Tensor
    fractions: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        blocks = cut_into_blocks(clouds, self.block_size)
        with torch.no_grad():
            by_query, by_key = (self._sort(z, clouds) for z in (query, key))
        near = attend_in_blocks(query, key, value, by_query, by_key, blocks)
        far = self._attend_to_samples(query, key, value, by_query, by_key, blocks, clouds)
        return combine([near[0], far[0]], [near[1], far[1]])

    def _sort(self, z: Tensor, clouds: Clouds) -> Tensor:
        n_bits = self.planes.shape[-1]
        bits = (z @ self.planes.to(z.dtype) > 0).long()
        powers = 2 ** torch.arange(n_bits, device=z.device)
        rank = gray_rank((bits * powers).sum(-1), n_bits)
        return torch.sort((clouds.index << n_bits) + rank, dim=-1, stable=True).indices

    def _attend_to_samples(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        by_query: Tensor,
        by_key: Tensor,
        blocks: Blocks,
        clouds: Clouds,
    ) -> tuple[Tensor, Tensor]:
        size = blocks.position.shape[1]
        query_block, key_block = (
            blocks.slot[invert(order)] // size for order in (by_query, by_key)
        )  # (H, N)
        outputs, totals = [], []
        bounds = clouds.offsets.tolist()
        for a, b in itertools.pairwise(bounds):
            sample = a + (self.fractions * (b - a)).long().clamp(max=max(b - a - 1, 0))  # (M,)
            sample = sample[: max(b - a, 0)] if b > a else sample[:0]
            logits = query[:, a:b] @ key[:, sample].mT  # (H, n, M)
            logits = logits + torch.log(
                torch.tensor((b - a) / max(len(sample), 1) + 1e-30, device=query.device)
            )
            in_block = query_block[:, a:b, None] == key_block[:, None, sample]
            logits = logits.masked_fill(in_block, NOTHING)
            if len(sample) == 0:
                outputs.append(value[:, a:b] * 0)
                totals.append(torch.full_like(query[:, a:b, 0], NOTHING))
                continue
            outputs.append(logits.softmax(-1) @ value[:, sample])
            totals.append(logits.logsumexp(-1))
        return torch.cat(outputs, 1), torch.cat(totals, 1)


def gray_rank(code: Tensor, n_bits: int) -> Tensor:
    """The rank of a code in Gray order, in which neighbours differ by one bit."""
    rank = code
    for shift in (1, 2, 4, 8, 16):
        if shift < n_bits:
            rank = rank ^ (rank >> shift)
    return rank


def make_hyper(frame: Frame, width: int) -> AttentionFactory:
    """Make HyperAttention with the sizes of a comparison: 200 samples for blocks of 100."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: HyperAttention(
            frame.n_heads, dim, block_size=frame.block_size, n_samples=2 * frame.block_size
        ),
    )
