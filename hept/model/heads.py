"""Heads of the network: concatenated layer outputs enter, embeddings or logits leave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from hept.devices.precision import full_precision
from hept.model.activation import apply_normed


class NormedPerceptron(nn.Sequential):
    """Linear layers, each but the last followed by a layer norm and tanh."""

    def __init__(self, widths: Sequence[int]) -> None:
        layers: list[nn.Module] = []
        for a, b in pairwise(widths[:-1]):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.Tanh()]
        super().__init__(*layers, nn.Linear(widths[-2], widths[-1]))

    def forward(self, x: Tensor) -> Tensor:
        """(N, widths[0]) to (N, widths[-1])."""
        *layers, last = self
        for linear, norm in zip(layers[::3], layers[1::3], strict=True):
            x = apply_normed(cast(nn.Linear, linear), cast(nn.LayerNorm, norm), x)
        return last(x)  # type: ignore[no-any-return]


class EmbeddingHead(nn.Module):
    """h = W x; out = h + drop(mlp(h)): five linear layers with layer norm and tanh in between."""

    def __init__(
        self, in_dim: int, out_dim: int, *, dropout: float, width: int = 256, depth: int = 5
    ) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        self.mlp = NormedPerceptron([out_dim, *[width] * (depth - 1), out_dim])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_dim) to (N, out_dim)."""
        # An embedding of 8 or 11 bits could not tell close tracks apart; the wide layers add a correction.
        with full_precision(x.device):
            # The concatenated outputs may be in half precision.
            h = self.project(x.to(self.project.weight.dtype))
        return h + self.dropout(self.mlp(h))  # type: ignore[no-any-return]


class ClassificationHead(nn.Module):
    """An embedding, then a linear layer to logits; the loss applies the sigmoid."""

    def __init__(
        self, in_dim: int, embedding_dim: int, out_dim: int, *, dropout: float, width: int = 256
    ) -> None:
        super().__init__()
        self.embed = EmbeddingHead(in_dim, embedding_dim, dropout=dropout, width=width)
        self.out = nn.Linear(embedding_dim, out_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_dim) to (N, out_dim)."""
        embedded = self.embed(x)
        with full_precision(x.device):
            return self.out(embedded)  # type: ignore[no-any-return]


def make_head(
    kind: Literal["embedding", "classification"],
    in_dim: int,
    out_dim: int,
    *,
    embedding_dim: int,
    dropout: float,
    width: int = 256,
) -> nn.Module:
    """The head of this kind; only a classification head has an `embedding_dim` of its own."""
    if kind == "embedding":
        return EmbeddingHead(in_dim, out_dim, dropout=dropout, width=width)
    return ClassificationHead(in_dim, embedding_dim, out_dim, dropout=dropout, width=width)


def embed_class(features: Tensor, column: int, embedding: nn.Embedding | None) -> Tensor:
    """(N, F) features with the class in `column` replaced by its embedding, behind the others."""
    if embedding is None:
        return features
    before, at, after = features.tensor_split([column, column + 1], 1)
    return torch.cat([before, after, embedding(at.squeeze(1).long())], -1)
