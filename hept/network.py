"""The trained thing: preparation of the features, then the model; saved and loaded as one module.

Axes: N points, F features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hept.attention.layer import HEPTAttention
from hept.heads import ClassificationHead, EmbeddingHead
from hept.model import HEPT, TransformerBlock


class Network(nn.Module):
    """`body` after a fixed preparation of the features.

    Heavy-tailed columns (momenta) go through sign(x)·log(1 + |x|), then columns are shifted and scaled.
    Both are taken from the training split before training, and stored with the weights: the network carries
    its own units.

    Args:
        body: Maps (features, coords, offsets) to (N, out).
        n_features: Columns of `features`.
        signed_log: Which columns are compressed.
    """

    def __init__(self, body: nn.Module, n_features: int, *, signed_log: Sequence[int] = ()) -> None:
        super().__init__()
        is_log = torch.zeros(n_features, dtype=torch.bool)
        is_log[list(signed_log)] = True
        self.register_buffer("is_log", is_log)
        self.register_buffer("shift", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))
        self.body = body

    is_log: Tensor
    shift: Tensor
    scale: Tensor

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """(N, F), (N, D) and (B + 1,) to (N, out)."""
        dtype = self.shift.dtype
        prepared = (self.compress(features.to(dtype)) - self.shift) * self.scale
        out: Tensor = self.body(prepared, coords.to(dtype), offsets)
        return out

    def compress(self, features: Tensor) -> Tensor:
        """The features with their heavy-tailed columns in log scale."""
        return torch.where(self.is_log, features.sign() * features.abs().log1p(), features)

    def standardise(self, batches: Iterable[Tensor], *, leave: Sequence[int] = ()) -> None:
        """Set shift and scale so that the columns of `batches` have mean 0 and variance 1.

        Args:
            batches: Feature matrices, (N, F) each.
            leave: Columns that stay as they are (classes are names, not numbers).
        """
        count, total, squares = (
            0,
            torch.zeros_like(self.shift).double(),
            torch.zeros_like(self.shift).double(),
        )
        for features in batches:
            compressed = self.compress(features.to(self.shift.device)).double()
            count += len(compressed)
            total += compressed.sum(0)
            squares += compressed.square().sum(0)
        mean = total / max(count, 1)
        deviation = (squares / max(count, 1) - mean.square()).clamp(min=0).sqrt()
        # A constant column carries nothing: shifted to 0, not blown up by a division by its rounding error.
        scale = torch.where(deviation > 1e-6 * (1 + mean.abs()), 1 / deviation, torch.ones_like(deviation))
        mean[list(leave)], scale[list(leave)] = 0.0, 1.0
        self.shift.copy_(mean)
        self.scale.copy_(scale)


class PlainMLP(nn.Module):
    """Each point by itself: the baseline that sees no neighbours.

    Features and coordinates enter; `depth` hidden layers, then the same head as HEPT's.
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
        """(N, F) and (N, D) to (N, out); clouds do not matter."""
        parts = [features, coords]
        if self.n_classes:
            one_hot = nn.functional.one_hot(features[:, self.class_feature].long(), self.n_classes)
            parts.append(one_hot.to(features.dtype))
        out: Tensor = self.head(self.layers(torch.cat(parts, 1)))
        return out


def checkpoint_activations(network: Network) -> None:
    """Recompute the transformer blocks in the backward pass instead of keeping what they hold."""
    if isinstance(network.body, HEPT):
        for block in network.body.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def silence_attention(body: nn.Module) -> None:
    """Let every transformer block begin as if it had no attention, which then grows from zero.

    Untrained attention mixes neighbours at random. Without it the first steps learn what each point tells by
    itself, and the rest of the training needs fewer of them.
    """
    for block in body.modules():
        if isinstance(block, TransformerBlock):
            for name, parameter in block.attention.named_parameters():
                if "out_linear" in name:
                    nn.init.zeros_(parameter)


def focus_attention(body: nn.Module, width: float) -> None:
    """Let the kernel exp(−½ d²/width²) of HEPT's attention begin with this width in the plane of η and φ.

    Drawn at random it begins several times wider than the distance of tracks in a dense event, and has to
    find its way down first.
    """
    for attention in body.modules():
        if isinstance(attention, HEPTAttention) and attention.omega_terms is not None:
            with torch.no_grad():
                # The first ω is that of the plane: exp(−ω d²).
                shift = (0.5 / width**2 / attention.omega()[:, 0]).log() / attention.omega_terms.shape[1]
                attention.omega_terms[:, :, 0] += shift[:, None, None]


def count_parameters(model: nn.Module) -> int:
    """Trainable numbers."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
