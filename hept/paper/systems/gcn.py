"""GCN (Kipf & Welling 2016) on the graph of nearest neighbours in (η, φ).

    out_u = Σ_{w ∈ N(u) ∪ {u}} W x_w / √(d_u d_w) + b,  d = number of neighbours + 1

Axes: N points, K neighbours.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.paper.systems.graph_network import GraphLayerFactory
from hept.paper.systems.neighbors import GraphMemory


class GCNLayer(nn.Module):
    """Symmetrically normalised sum over neighbours."""

    def __init__(self, width: int, graph: GraphMemory) -> None:
        super().__init__()
        self.graph = graph
        self.linear = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, width) to (N, width)."""
        graph = self.graph.of(coords, clouds)
        root = (graph.is_real.sum(1) + 1).to(x.dtype).rsqrt()[:, None]  # (N, 1) 1/√d
        sent = self.linear(x) * root
        received = (sent[graph.index] * graph.is_real[..., None]).sum(1) + sent
        out: Tensor = received * root + self.bias
        return out


def make_gcn(frame: Frame) -> GraphLayerFactory:
    """Layers that share one graph of nearest neighbours."""
    return partial(GCNLayer, graph=GraphMemory(frame.n_neighbors, frame.periods))
