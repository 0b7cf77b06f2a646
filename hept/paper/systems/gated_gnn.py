"""Gated graph network (Li et al. 2015), as used against pileup (Li et al. 2023), on neighbours in (η, φ).

    m_u = mean_{w ∈ N(u)} W x_w,  out_u = GRU(m_u, x_u)

The original sums messages; the mean keeps the gates from saturating at 64 neighbours.

Axes: N points, K neighbours.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.paper.systems.graph_network import GraphLayerFactory
from hept.paper.systems.neighbors import GraphMemory


class GatedLayer(nn.Module):
    """Messages through a gated recurrent unit."""

    def __init__(self, width: int, graph: GraphMemory) -> None:
        super().__init__()
        self.graph = graph
        self.linear = nn.Linear(width, width, bias=False)
        self.gru = nn.GRUCell(width, width)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, width) to (N, width)."""
        graph = self.graph.of(coords, clouds)
        sent = self.linear(x)
        message = (sent[graph.index] * graph.is_real[..., None]).sum(1)
        out: Tensor = self.gru(message / graph.is_real.sum(1).clamp(min=1)[:, None], x)
        return out


def make_gated_gnn(frame: Frame) -> GraphLayerFactory:
    """Layers that share one graph of nearest neighbours."""
    return partial(GatedLayer, graph=GraphMemory(frame.n_neighbors, frame.periods))
