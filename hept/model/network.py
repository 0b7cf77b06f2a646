"""The module that is trained and saved: preparation of the inputs, then the model.

Axes: N points, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hepdata.schema import ModelInput
from hept.attention.definition import HEPTAttention
from hept.devices.choice import Precision
from hept.devices.precision import mixed_precision
from hept.model.preparation import Preparation
from hept.model.transformer import HEPT, TransformerBlock


class Network(nn.Module):
    """Preparation of the inputs followed by `body`: the network contains its own standardisation.

    Args:
        body: Maps (features, coords, offsets) to (N, out).
        features: Description of the columns of `features`.
        coords: Description of the columns of `coords`.
        normalise: Whether rows of the output are scaled to length 1.
    """

    def __init__(
        self,
        body: nn.Module,
        features: Sequence[ModelInput],
        coords: Sequence[ModelInput],
        *,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.normalise = normalise
        self.features, self.coords = Preparation(features), Preparation(coords)
        self.body = body

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """Scaled columns (N, F) and (N, D), and (B + 1,) offsets, to (N, out)."""
        out: Tensor = self.body(self.features(features), self.coords(coords), offsets)
        return nn.functional.normalize(out, dim=-1) if self.normalise else out


class InPrecision(nn.Module):
    """A network whose wide layers run in half precision, if `precision` is mixed; outputs are not.

    Training and validation run this, not the network alone: a score is of what was trained.
    """

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        super().__init__()
        self.network, self.precision = network, precision

    def forward(self, features: Tensor, coords: Tensor, offsets: Tensor) -> Tensor:
        """As the network's own."""
        with mixed_precision(features.device, self.precision):
            out: Tensor = self.network(features, coords, offsets)
        return out.float() if out.dtype in (torch.float16, torch.bfloat16) else out


def checkpoint_activations(network: Network) -> None:
    """Recompute the transformer blocks in the backward pass instead of storing their activations."""
    if isinstance(network.body, HEPT):
        for block in network.body.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def silence_attention(body: nn.Module) -> None:
    """Initialise the output of every attention layer to zero.

    Untrained attention mixes neighbours at random. With zero output, the first steps learn from each point
    independently, and training needs fewer steps in total.
    """
    for block in body.modules():
        if isinstance(block, TransformerBlock):
            for name, parameter in block.attention.named_parameters():
                if "out_linear" in name:
                    nn.init.zeros_(parameter)


def focus_attention(body: nn.Module, width: float) -> None:
    """Initialise the kernel exp(−½ d²/width²) of HEPT's attention with this width in the (η, φ) plane.

    The random initial width is several times larger than the distance of tracks in a dense event, and takes
    many steps to shrink.
    """
    for attention in body.modules():
        if isinstance(attention, HEPTAttention) and attention.omega_terms is not None:
            with torch.no_grad():
                # The first ω belongs to the (η, φ) plane: exp(−ω d²).
                shift = (0.5 / width**2 / attention.omega()[:, 0]).log() / attention.omega_terms.shape[1]
                attention.omega_terms[:, :, 0] += shift[:, None, None]


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
