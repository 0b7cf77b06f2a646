"""A graph network with HEPT's encoder, concatenation of layers and head, but other layers in between.

    h₀ = encode(x);  h_ℓ = h_{ℓ−1} + drop(relu(norm(layer_ℓ(h_{ℓ−1}))));  out = head([h₀ ‖ … ‖ h_L])

Axes: N points, B clouds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.frame import Frame
from hept.model.heads import embed_class, make_head

# Makes a layer from its width: a module that maps (x (N, width), coords (N, D), clouds) to (N, width).
GraphLayerFactory = Callable[[int], nn.Module]


# Width of the class embedding, as in HEPT.
CLASS_DIM = 10


class GraphNetwork(nn.Module):
    """Encoder, layers on neighbour graphs, head.

    Args:
        frame: Sizes, shared by all systems.
        make_layer: Makes a layer from its width.
        width: Width of the point features; chosen to match the number of parameters.
    """

    def __init__(self, frame: Frame, make_layer: GraphLayerFactory, width: int) -> None:
        super().__init__()
        self.class_feature = frame.class_feature % frame.n_features
        self.class_embedding = nn.Embedding(frame.n_classes, CLASS_DIM) if frame.n_classes else None
        entering = frame.n_features - 1 + CLASS_DIM if frame.n_classes else frame.n_features
        self.encoder = nn.Sequential(nn.Linear(entering, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(make_layer(width) for _ in range(frame.n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(frame.n_layers))
        self.dropout = nn.Dropout(frame.dropout)
        joined = width * (frame.n_layers + 1)
        self.head = make_head(
            frame.head, joined, frame.out_dim, embedding_dim=frame.hidden_dim // 2, dropout=frame.dropout
        )

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """(N, n_features), (N, D) and (B+1,) to (N, out_dim)."""
        clouds = Clouds.from_offsets(offsets, features.shape[0])
        x = self.encoder(embed_class(features, self.class_feature, self.class_embedding))
        joined = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + self.dropout(norm(layer(x, coords, clouds)).relu())
            joined.append(x)
        out: Tensor = self.head(torch.cat(joined, -1))
        return out
