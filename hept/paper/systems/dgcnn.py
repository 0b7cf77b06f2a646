"""DGCNN (Wang et al. 2019) as used for particle clouds (Qu & Gouskos 2020): edge convolutions.

    out_u = mean_{w ∈ N(u)} MLP([x_u ‖ x_w − x_u])

with neighbours in (η, φ) in the first layer, and among the features in all others.

Axes: N points, K neighbours.
"""

from __future__ import annotations

import itertools

from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.paper.systems.graph_network import GraphLayerFactory
from hept.paper.systems.neighbors import GraphMemory, find_neighbors


class EdgeConvLayer(nn.Module):
    """An edge convolution with mean aggregation.

    Args:
        width: Width of the features.
        graph: Provides neighbours in (η, φ); None finds neighbours in the space of the input features.
        n_neighbors: Number of neighbours in the space of the features.
    """

    def __init__(self, width: int, graph: GraphMemory | None, n_neighbors: int = 64) -> None:
        super().__init__()
        self.graph, self.n_neighbors = graph, n_neighbors
        # The first linear layer of the MLP, split: W[x_u ‖ x_w − x_u] = A x_u + B (x_w − x_u).
        self.of_target = nn.Linear(width, width)
        self.of_difference = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, width) to (N, width)."""
        found = (
            find_neighbors(x, clouds, self.n_neighbors)
            if self.graph is None
            else self.graph.of(coords, clouds)
        )
        difference = self.of_difference(x)
        first = (self.of_target(x) - difference)[:, None] + difference[found.index]  # (N, K, width)
        message = self.second(self.norm(first).relu()).relu() * found.is_real[..., None]
        mean: Tensor = message.sum(1) / found.is_real.sum(1).clamp(min=1)[:, None]
        return mean


def make_dgcnn(frame: Frame) -> GraphLayerFactory:
    """Layers: the first uses a graph of the coordinates, the others graphs of their input features."""
    graphs = itertools.chain([GraphMemory(frame.n_neighbors, frame.periods)], itertools.repeat(None))
    return lambda width: EdgeConvLayer(width, next(graphs), frame.n_neighbors)
