"""Every graph layer by name. A new one is a file and an entry of `GRAPH_LAYERS` (and of the catalog).

An entry takes the frame and gives what makes a layer from its width.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from torch import nn

from hept.paper.systems.dgcnn import EdgeConvLayer
from hept.paper.systems.frame import Frame
from hept.paper.systems.gated_gnn import GatedLayer
from hept.paper.systems.gcn import GCNLayer
from hept.paper.systems.graph_network import GraphLayerFactory
from hept.paper.systems.gravnet import GravNetLayer
from hept.paper.systems.neighbors import GraphMemory


def _dgcnn(frame: Frame) -> GraphLayerFactory:
    graphs = itertools.chain([GraphMemory(frame.n_neighbors, frame.periods)], itertools.repeat(None))
    return lambda width: EdgeConvLayer(width, next(graphs), frame.n_neighbors)


def _on_graph(layer: Callable[[int, GraphMemory], nn.Module]) -> Callable[[Frame], GraphLayerFactory]:
    def for_frame(frame: Frame) -> GraphLayerFactory:
        graph = GraphMemory(frame.n_neighbors, frame.periods)
        return lambda width: layer(width, graph)

    return for_frame


GRAPH_LAYERS: dict[str, Callable[[Frame], GraphLayerFactory]] = {
    "gcn": _on_graph(GCNLayer),
    "gatedgnn": _on_graph(GatedLayer),
    "dgcnn": _dgcnn,
    "gravnet": lambda frame: lambda width: GravNetLayer(width, frame.n_neighbors),
}
