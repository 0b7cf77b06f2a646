"""Every attention by name. A new one is a file of its own and an entry of `ATTENTIONS` (and of the catalog).

An entry takes the frame and the free width that matches parameters, and gives what makes the attention of a
block from (hidden_dim, coords_dim).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from hept.attention.definition import HEPTAttention
from hept.paper.systems.exact import ExactAttention
from hept.paper.systems.flatformer import FlatFormerAttention
from hept.paper.systems.flt import FLTAttention
from hept.paper.systems.frame import Frame
from hept.paper.systems.hyper_attention import HyperAttention
from hept.paper.systems.neighbors import GraphMemory
from hept.paper.systems.performer import PerformerAttention
from hept.paper.systems.point_transformer import PointTransformerAttention
from hept.paper.systems.positioned import PositionedAttention
from hept.paper.systems.projections import Kernel, MultiHeadAttention
from hept.paper.systems.reformer import ReformerAttention
from hept.paper.systems.scatterbrain import ScatterBrainAttention
from hept.paper.systems.smyrf import SmyrfAttention

AttentionFactory = Callable[[int, int], nn.Module]


def make_hept(
    frame: Frame,
    *,
    kernel: Literal["gaussian", "dot"] = "gaussian",
    and_coords: tuple[int, ...] = (0, 1),
    n_hidden_codes: int = 0,
    tied_qk: bool = False,
) -> AttentionFactory:
    """HEPT's own attention, or one with parts of it taken out (paper, Table 3)."""
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
        backend=frame.backend,
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
    graph = GraphMemory(frame.n_neighbors, frame.periods)
    return partial(PointTransformerAttention, width=width, graph=graph, periods=frame.periods)


def _positioned(frame: Frame, width: int) -> AttentionFactory:
    return partial(
        PositionedAttention, attention=make_hept(frame, kernel="dot"), width=width, periods=frame.periods
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
            frame.n_heads,
            dim,
            frame.coords_dim,
            n_random=3 * frame.block_size // 2,
            periods=frame.periods,
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
    "or-only": lambda frame, width: make_hept(frame, and_coords=()),  # noqa: ARG005
    "or-only-tied": lambda frame, width: make_hept(frame, and_coords=(), tied_qk=True),  # noqa: ARG005
    "or-and": lambda frame, width: make_hept(frame, and_coords=(), n_hidden_codes=2),  # noqa: ARG005
    "or-and-tied": lambda frame, width: make_hept(  # noqa: ARG005
        frame, and_coords=(), n_hidden_codes=2, tied_qk=True
    ),
}
