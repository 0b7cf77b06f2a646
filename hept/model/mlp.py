"""A plain MLP: the baseline that processes each point independently.

Axes: N points, F features, D coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hept.model.frame import Frame
from hept.model.heads import make_head


class PlainMLP(nn.Module):
    """The baseline that processes each point independently.

    Its inputs are features and coordinates; `n_layers` hidden layers precede the same head as HEPT's.
    """

    def __init__(self, frame: Frame, width: int) -> None:
        super().__init__()
        self.class_feature = frame.class_feature % frame.n_features
        self.n_classes = frame.n_classes
        size = frame.n_features + frame.coords_dim + frame.n_classes
        layers: list[nn.Module] = []
        for _ in range(frame.n_layers):
            layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.ReLU()]
            size = width
        self.layers = nn.Sequential(*layers)
        self.head = make_head(frame.head, width, frame.out_dim, embedding_dim=12, dropout=frame.dropout)

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
    return PlainMLP(frame, width)
