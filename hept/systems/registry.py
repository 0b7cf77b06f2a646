"""From a name to a network: every system in one frame, matched to HEPT in trainable parameters.

A new attention is one file and one entry of `ATTENTIONS`; a new graph layer, one of `GRAPH_LAYERS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import nn

from hept.attention import HEPTAttention
from hept.model import HEPT
from hept.systems.catalog import find_system
from hept.systems.dgcnn import EdgeConvLayer
from hept.systems.exact import ExactAttention
from hept.systems.flatformer import FlatFormerAttention
from hept.systems.flt import FLTAttention
from hept.systems.gated_gnn import GatedLayer
from hept.systems.gcn import GCNLayer
from hept.systems.graph_network import GraphNetwork
from hept.systems.gravnet import GravNetLayer
from hept.systems.hyper_attention import HyperAttention
from hept.systems.neighbors import GraphMemory
from hept.systems.performer import PerformerAttention
from hept.systems.point_transformer import PointTransformerAttention
from hept.systems.positioned import PositionedAttention
from hept.systems.projections import Kernel, MultiHeadAttention
from hept.systems.random_baseline import RandomScores, Untrained
from hept.systems.reformer import ReformerAttention
from hept.systems.scatterbrain import ScatterBrainAttention
from hept.systems.smyrf import SmyrfAttention

MAX_WIDTH = 4096


@dataclass(frozen=True)
class Frame:
    """What all systems of a comparison share.

    Attributes:
        n_features: Columns of `features`, the class column included.
        coords_dim: Columns of `coords`.
        out_dim: Columns of the output.
        n_layers: Layers.
        hidden_dim: Width of the point features of transformers, and of each head.
        n_heads: Attention heads.
        block_size: Points of an attention block; sets the number of random features and samples too.
        n_tables: Hash tables.
        n_regions: Product of the AND bucket numbers of HEPT.
        n_neighbors: Neighbours of a graph.
        head: "embedding" or "classification".
        n_classes: Classes of the embedded feature, 0 for none.
        class_feature: Column of `features` that holds the class.
        dropout: Probability of dropping in training.
        periods: Period by coordinate for those that are angles.
    """

    n_features: int
    coords_dim: int
    out_dim: int
    n_layers: int = 4
    hidden_dim: int = 24
    n_heads: int = 8
    block_size: int = 100
    n_tables: int = 3
    n_regions: float = 150
    n_neighbors: int = 64
    head: Literal["embedding", "classification"] = "embedding"
    n_classes: int = 0
    class_feature: int = -1
    dropout: float = 0.1
    periods: dict[int, float] = field(default_factory=dict)


def build_model(name: str, frame: Frame) -> nn.Module:
    """A network with `forward(features, coords, offsets)`, weights drawn from torch's generator.

    Args:
        name: A name of the catalog (but for `mlp`, which is no system of the paper).
        frame: Sizes, shared by all systems.

    Raises:
        InputError: There is no such system.
    """
    find_system(name)
    if name == "random":
        if frame.head == "classification":
            return RandomScores(frame.out_dim)
        return Untrained(_build_hept(frame))
    if name == "hept":
        return _build_hept(frame)
    return make(name, frame, match_width(name, frame))


def match_width(name: str, frame: Frame) -> int:
    """The width of the system's own networks at which it has as many trainable parameters as HEPT."""
    with torch.device("meta"):
        target = _count(_build_hept(frame))
        low, high = 1, MAX_WIDTH
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _count(make(name, frame, middle)) <= target else (low, middle)
        over = _count(make(name, frame, high)) - target
        under = target - _count(make(name, frame, low))
    return high if over < under else low


def make(name: str, frame: Frame, width: int) -> nn.Module:
    """The system `name` with its free width set to `width`."""
    if name in GRAPH_LAYERS:
        return GraphNetwork(
            frame.n_features,
            frame.out_dim,
            GRAPH_LAYERS[name](frame),
            width=width,
            n_layers=frame.n_layers,
            head=frame.head,
            embedding_dim=frame.hidden_dim // 2,
            n_classes=frame.n_classes,
            class_feature=frame.class_feature,
            dropout=frame.dropout,
        )
    return _build_hept(frame, ATTENTIONS[name](frame, width))


def _count(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters() if weights.requires_grad)


AttentionFactory = Callable[[int, int], nn.Module]
GraphLayerFactory = Callable[[int], nn.Module]


def _build_hept(frame: Frame, attention: AttentionFactory | None = None) -> HEPT:
    return HEPT(
        frame.n_features,
        frame.coords_dim,
        frame.out_dim,
        n_layers=frame.n_layers,
        hidden_dim=frame.hidden_dim,
        n_heads=frame.n_heads,
        head=frame.head,
        n_classes=frame.n_classes,
        class_feature=frame.class_feature,
        dropout=frame.dropout,
        attention=attention or _hashed(frame),
    )


def _hashed(
    frame: Frame,
    *,
    kernel: Literal["gaussian", "dot"] = "gaussian",
    and_coords: tuple[int, ...] = (0, 1),
    n_hidden_codes: int = 0,
    tied_qk: bool = False,
) -> AttentionFactory:
    return partial(
        HEPTAttention,
        n_heads=frame.n_heads,
        block_size=frame.block_size,
        n_tables=frame.n_tables,
        n_regions=frame.n_regions,
        and_coords=and_coords,
        n_hidden_codes=n_hidden_codes,
        periods=frame.periods,
        kernel=kernel,
        tied_qk=tied_qk,
    )


def _multi_head(
    make_mechanism: Callable[[Frame, int, int], nn.Module], kernel: Kernel = "dot", is_tied: bool = False
) -> Callable[[Frame, int], AttentionFactory]:
    """A factory for attentions of a mechanism, itself made from (frame, dimensions of a query, layer)."""

    def for_frame(frame: Frame, width: int) -> AttentionFactory:
        layers = itertools.count()

        def make_attention(hidden_dim: int, coords_dim: int) -> nn.Module:
            lifted = coords_dim + len(frame.periods)
            dim = hidden_dim + (lifted if kernel == "gauss" else 0)
            return MultiHeadAttention(
                hidden_dim,
                coords_dim,
                n_heads=frame.n_heads,
                mechanism=make_mechanism(frame, dim, next(layers)),
                kernel=kernel,
                position_width=width,
                is_tied=is_tied,
                periods=frame.periods,
            )

        return make_attention

    return for_frame


def _point_transformer(frame: Frame, width: int) -> AttentionFactory:
    return partial(PointTransformerAttention, width=width, graph=GraphMemory(frame.n_neighbors))


def _positioned(frame: Frame, width: int) -> AttentionFactory:
    return partial(
        PositionedAttention, attention=_hashed(frame, kernel="dot"), width=width, periods=frame.periods
    )


# Appendix C lists what was tried; taken here is what costs about as much as HEPT. At blocks of 100 and three
# tables: Reformer two tables (its blocks see two), HyperAttn 200 samples, Performer and FLT 150 random
# features,
# ScatterBrain two tables of blocks of 50 and 75 features, FlatFormer groups of 300.
ATTENTIONS: dict[str, Callable[[Frame, int], AttentionFactory]] = {
    "exact": _multi_head(lambda frame, dim, layer: ExactAttention()),  # noqa: ARG005
    "reformer": _multi_head(
        lambda frame, dim, layer: ReformerAttention(  # noqa: ARG005
            frame.n_heads, dim, block_size=frame.block_size, n_tables=max(1, 2 * frame.n_tables // 3)
        ),
        is_tied=True,
    ),
    "smyrf": _multi_head(
        lambda frame, dim, layer: SmyrfAttention(  # noqa: ARG005
            frame.n_heads, dim, block_size=frame.block_size, n_tables=frame.n_tables
        )
    ),
    "smyrf-khept": _multi_head(
        lambda frame, dim, layer: SmyrfAttention(  # noqa: ARG005
            frame.n_heads, dim, block_size=frame.block_size, n_tables=frame.n_tables, kernel="gauss"
        ),
        "gauss",
    ),
    "hyperattn": _multi_head(
        lambda frame, dim, layer: HyperAttention(  # noqa: ARG005
            frame.n_heads, dim, block_size=frame.block_size, n_samples=2 * frame.block_size
        )
    ),
    "performer": _multi_head(
        lambda frame, dim, layer: PerformerAttention(  # noqa: ARG005
            frame.n_heads, dim, n_random=3 * frame.block_size // 2
        )
    ),
    "performer-khept": _multi_head(
        lambda frame, dim, layer: PerformerAttention(  # noqa: ARG005
            frame.n_heads, dim, n_random=3 * frame.block_size // 2, kernel="gauss"
        ),
        "gauss",
    ),
    "flt": _multi_head(
        lambda frame, dim, layer: FLTAttention(  # noqa: ARG005
            frame.n_heads, dim, frame.coords_dim, n_random=3 * frame.block_size // 2
        )
    ),
    "scatterbrain": _multi_head(
        lambda frame, dim, layer: ScatterBrainAttention(  # noqa: ARG005
            frame.n_heads,
            dim,
            block_size=max(2, frame.block_size // 2),
            n_tables=2,
            n_random=max(2, 3 * frame.block_size // 4),
        )
    ),
    "flatformer": _multi_head(
        lambda frame, dim, layer: FlatFormerAttention(block_size=3 * frame.block_size, layer=layer)  # noqa: ARG005
    ),
    "flatformer-khept": _multi_head(
        lambda frame, dim, layer: FlatFormerAttention(  # noqa: ARG005
            block_size=3 * frame.block_size, layer=layer, kernel="gauss"
        ),
        "gauss",
    ),
    "pointtrans": _point_transformer,
    "hept-dot": _positioned,
    "or-only": lambda frame, width: _hashed(frame, and_coords=()),  # noqa: ARG005
    "or-only-tied": lambda frame, width: _hashed(frame, and_coords=(), tied_qk=True),  # noqa: ARG005
    "or-and": lambda frame, width: _hashed(frame, and_coords=(), n_hidden_codes=2),  # noqa: ARG005
    "or-and-tied": lambda frame, width: _hashed(  # noqa: ARG005
        frame, and_coords=(), n_hidden_codes=2, tied_qk=True
    ),
}


def _dgcnn(frame: Frame) -> GraphLayerFactory:
    graphs = itertools.chain([GraphMemory(frame.n_neighbors)], itertools.repeat(None))
    return lambda width: EdgeConvLayer(width, next(graphs), frame.n_neighbors)


def _on_graph(layer: Callable[[int, GraphMemory], nn.Module]) -> Callable[[Frame], GraphLayerFactory]:
    def for_frame(frame: Frame) -> GraphLayerFactory:
        graph = GraphMemory(frame.n_neighbors)
        return lambda width: layer(width, graph)

    return for_frame


GRAPH_LAYERS: dict[str, Callable[[Frame], GraphLayerFactory]] = {
    "gcn": _on_graph(GCNLayer),
    "gatedgnn": _on_graph(GatedLayer),
    "dgcnn": _dgcnn,
    "gravnet": lambda frame: lambda width: GravNetLayer(width, frame.n_neighbors),
}
