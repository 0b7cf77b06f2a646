"""A plain MLP: the baseline that processes each point independently.

Axes: N points, F features, D coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hept.model.frame import Frame
from hept.model.heads import ClassificationHead, EmbeddingHead


class PlainMLP(nn.Module):
    """The baseline that processes each point independently.

    Its inputs are features and coordinates; `depth` hidden layers precede the same head as HEPT's.
    """

    def __init__(
        self,
        n_features: int,
        coords_dim: int,
        out_dim: int,
        *,
        width: int,
        depth: int,
        is_classifier: bool,
        n_classes: int = 0,
        class_feature: int = -1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.class_feature = class_feature % n_features
        self.n_classes = n_classes
        size = n_features + coords_dim + n_classes
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.ReLU()]
            size = width
        self.layers = nn.Sequential(*layers)
        self.head: nn.Module = (
            ClassificationHead(width, 12, out_dim, dropout=dropout)
            if is_classifier
            else EmbeddingHead(width, out_dim, dropout=dropout)
        )

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:  # noqa: ARG002
        """(N, F) and (N, D) to (N, out); offsets are ignored."""
        parts = [features, coords]
        if self.n_classes:
            one_hot = nn.functional.one_hot(features[:, self.class_feature].long(), self.n_classes)
            parts.append(one_hot.to(features.dtype))
        out: Tensor = self.head(self.layers(torch.cat(parts, 1)))
        return out


def build_mlp(frame: Frame) -> PlainMLP:
    """A plain MLP whose layers have about as many weights as HEPT's encoder and blocks."""
    hidden, ff = frame.hidden_dim, frame.ff_dim or frame.hidden_dim
    n_projections = 3 if frame.tied_qk else 4
    target = (frame.n_features + hidden) * ff
    target += frame.n_layers * (n_projections * frame.n_heads * hidden**2 + 2 * hidden * ff)
    width = 1
    while (frame.n_features + frame.coords_dim) * width + (frame.n_layers - 1) * width**2 < target:
        width += 1
    return PlainMLP(
        frame.n_features,
        frame.coords_dim,
        frame.out_dim,
        width=width,
        depth=frame.n_layers,
        is_classifier=frame.head == "classification",
        n_classes=frame.n_classes,
        class_feature=frame.class_feature,
        dropout=frame.dropout,
    )
