"""GravNet (Qasim et al. 2019): neighbours in a learned space, weighted by their distance there.

    s = W_s x,  f = W_f x,  out_u = W₁ x_u + W₂ [mean_w ‖ max_w] of f_w exp(−10 ‖s_u − s_w‖²)

Axes: N points, K neighbours, S learned coordinates, P propagated features.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.paper.systems.graph_network import GraphLayerFactory
from hept.paper.systems.neighbors import find_neighbors


class GravNetLayer(nn.Module):
    """Aggregation over neighbours in a learned space.

    Args:
        width: Width of the features.
        n_neighbors: Neighbours in the learned space.
        space_dim: Learned coordinates.
        n_propagated: Features sent along edges.
    """

    def __init__(
        self, width: int, n_neighbors: int = 64, *, space_dim: int = 4, n_propagated: int = 22
    ) -> None:
        super().__init__()
        self.n_neighbors = n_neighbors
        self.to_space = nn.Linear(width, space_dim)
        self.to_propagate = nn.Linear(width, n_propagated)
        self.of_self = nn.Linear(width, width, bias=False)
        self.of_received = nn.Linear(2 * n_propagated, width)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, width) to (N, width)."""
        position, sent = self.to_space(x), self.to_propagate(x)
        found = find_neighbors(position, clouds, self.n_neighbors)
        squared = (position[:, None] - position[found.index]).square().sum(-1)  # (N, K)
        weight = (-10 * squared).exp() * found.is_real
        received = weight[..., None] * sent[found.index]  # (N, K, P)
        mean = received.sum(1) / found.is_real.sum(1).clamp(min=1)[:, None]
        out: Tensor = self.of_self(x) + self.of_received(torch.cat([mean, received.amax(1)], -1))
        return out


def make_gravnet(frame: Frame) -> GraphLayerFactory:
    """Layers that find neighbours in a learned space."""
    return partial(GravNetLayer, n_neighbors=frame.n_neighbors)
