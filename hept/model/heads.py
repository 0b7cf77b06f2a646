"""Heads of the network: concatenated layer outputs enter, embeddings or logits leave."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from hept.devices.precision import full_precision


class TanhInPlace(nn.Module):
    """In-place tanh: the preceding layer norm does not need its output for backward."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return x.tanh_()


class EmbeddingHead(nn.Module):
    """h = W x; out = h + drop(mlp(h)): five linear layers with layer norm and tanh in between."""

    def __init__(
        self, in_dim: int, out_dim: int, *, dropout: float, width: int = 256, depth: int = 5
    ) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim, bias=False)
        layers: list[nn.Module] = []
        for a, b in pairwise([out_dim, *[width] * (depth - 1)]):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), TanhInPlace()]
        self.mlp = nn.Sequential(*layers, nn.Linear(width, out_dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_dim) to (N, out_dim)."""
        # An embedding of 8 or 11 bits could not tell close tracks apart; the wide layers add a correction.
        with full_precision(x.device):
            # Concatenated outputs of layers may be in half precision.
            h = self.project(x.to(self.project.weight.dtype))
        return h + self.dropout(self.mlp(h))  # type: ignore[no-any-return]


class ClassificationHead(nn.Module):
    """An embedding, then logits; the sigmoid belongs to the loss."""

    def __init__(self, in_dim: int, embedding_dim: int, out_dim: int, *, dropout: float) -> None:
        super().__init__()
        self.embed = EmbeddingHead(in_dim, embedding_dim, dropout=dropout)
        self.out = nn.Linear(embedding_dim, out_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_dim) to (N, out_dim)."""
        embedded = self.embed(x)
        with full_precision(x.device):
            return self.out(embedded)  # type: ignore[no-any-return]
