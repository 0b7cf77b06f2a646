"""A graph network with HEPT's encoder, concatenation of layers and head, but other layers in between.

    h₀ = encode(x);  h_ℓ = h_{ℓ−1} + drop(relu(norm(layer_ℓ(h_{ℓ−1}))));  out = head([h₀ ‖ … ‖ h_L])

Axes: N points, B clouds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.model.heads import embed_class, make_head

# Makes a layer from its width: a module that maps (x (N, width), coords (N, D), clouds) to (N, width).
GraphLayerFactory = Callable[[int], nn.Module]


class GraphNetwork(nn.Module):
    """Encoder, layers on neighbour graphs, head.

    Args:
        n_features: Columns of `features`, the class column included.
        out_dim: Columns of the output.
        make_layer: Makes a layer from its width.
        width: Width of the point features; chosen to match the number of parameters.
        n_layers: Graph layers.
        head: "embedding" or "classification", as in HEPT.
        embedding_dim: Width before the logits of a classification head.
        n_classes: Classes of the embedded feature, 0 for none.
        class_feature: Column of `features` that holds the class.
        class_dim: Width of the class embedding.
        dropout: Dropout probability in training.
    """

    def __init__(
        self,
        n_features: int,
        out_dim: int,
        make_layer: GraphLayerFactory,
        *,
        width: int,
        n_layers: int = 4,
        head: Literal["embedding", "classification"] = "embedding",
        embedding_dim: int = 12,
        n_classes: int = 0,
        class_feature: int = -1,
        class_dim: int = 10,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.class_feature = class_feature % n_features
        self.class_embedding = nn.Embedding(n_classes, class_dim) if n_classes else None
        entering = n_features - 1 + class_dim if n_classes else n_features
        self.encoder = nn.Sequential(nn.Linear(entering, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(make_layer(width) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        joined = width * (n_layers + 1)
        self.head = make_head(head, joined, out_dim, embedding_dim=embedding_dim, dropout=dropout)

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
