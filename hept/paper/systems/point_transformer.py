"""Point Transformer (Zhao et al. 2021): vector attention over the nearest neighbours in (η, φ).

    out_u = Σ_w softmax_w(W_d x_u − W_s x_w + δ_uw) ⊙ (W x_w + δ_uw),  δ_uw = θ(ρ_u − ρ_w), u among its w

with a linear θ and a softmax for every channel. The original applies another network to the scores of every
edge; the 2.9 GFLOPs of the published comparison are too few for that.

Axes: N points, K neighbours and the point itself, V channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import lift_periodic
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.neighbors import GraphMemory


class PointTransformerAttention(nn.Module):
    """Vector attention on a graph.

    Args:
        hidden_dim: Width of the input and output features.
        coords_dim: Coordinates of a point.
        width: Inner channels V; chosen to match the number of parameters.
        graph: Provides the neighbours, shared by all layers.
        periods: Periods of the coordinates that are angles, by column.
    """

    def __init__(
        self,
        hidden_dim: int,
        coords_dim: int,
        *,
        width: int,
        graph: GraphMemory,
        periods: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__()
        self.periods = dict(periods or {})
        self.graph = graph
        self.enter = nn.Linear(hidden_dim, width)
        self.w_value = nn.Linear(width, width, bias=False)
        self.w_source = nn.Linear(width, width, bias=False)
        self.w_target = nn.Linear(width, width, bias=False)
        self.theta = nn.Linear(coords_dim + len(self.periods), width)
        self.out_linear = nn.Linear(width, hidden_dim)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, hidden_dim) to (N, hidden_dim)."""
        graph = self.graph.of(coords, clouds)
        own = torch.arange(x.shape[0], device=x.device)[:, None]
        index = torch.cat([graph.index, own], 1)  # (N, K+1)
        is_real = torch.cat([graph.is_real, torch.ones_like(own, dtype=torch.bool)], 1)
        x = self.enter(x).relu()
        lifted = lift_periodic(coords, self.periods)
        delta = self.theta(lifted[:, None] - lifted[index])  # (N, K+1, V)
        score = self.w_target(x)[:, None] - self.w_source(x)[index] + delta
        weight = score.masked_fill(~is_real[..., None], -torch.inf).softmax(1)
        out: Tensor = self.out_linear((weight * (self.w_value(x)[index] + delta)).sum(1))
        return out


def make_point_transformer(frame: Frame, width: int) -> AttentionFactory:
    """Make Point Transformer with the sizes of a comparison; all layers share one graph."""
    graph = GraphMemory(frame.n_neighbors, frame.periods)
    return partial(PointTransformerAttention, width=width, graph=graph, periods=frame.periods)
