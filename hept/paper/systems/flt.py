"""FLT (Choromanski et al. 2023): a relative positional term by random Fourier features, inside a Performer.

    kernel = exp(q·k + ω exp(−‖ρ_u − ρ_w‖² / σ²))

The positional term is an inner product of Fourier features of the coordinates; ω and σ are learned for every
head. With these features appended to queries and keys, the kernel is again exp of one inner product, which
the Performer approximates.

Axes: H heads, N points, D dimensions, P positional features, M random features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import lift_periodic
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.performer import PerformerAttention
from hept.paper.systems.projections import multi_head


class FLTAttention(nn.Module):
    """Performer with a learned Gaussian relative positional encoding.

    Args:
        n_heads: Attention heads.
        dim: Dimensions of a query.
        coords_dim: Coordinates of a point.
        n_random: Random features of the attention M.
        n_positional: Fourier features of the positional term P, even.
        periods: Periods of the coordinates that are angles, by column.
    """

    def __init__(
        self,
        n_heads: int,
        dim: int,
        coords_dim: int,
        *,
        n_random: int = 150,
        n_positional: int = 10,
        periods: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__()
        if n_positional < 2 or n_positional % 2:
            raise ValueError(f"n_positional is {n_positional}; sines and cosines need an even number ≥ 2")
        self.periods = dict(periods or {})
        self.omega = nn.Parameter(torch.ones(n_heads))
        self.log_sigma = nn.Parameter(torch.zeros(n_heads))
        self.register_buffer(
            "frequencies", torch.randn(n_heads, coords_dim + len(self.periods), n_positional // 2)
        )
        self.performer = PerformerAttention(n_heads, dim + n_positional, n_random=n_random)

    frequencies: Tensor

    def forward(self, query: Tensor, key: Tensor, value: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(H, N, D) twice and (H, N, V) to (H, N, V)."""
        waves = self.positional_features(coords)
        size = self.omega.abs().clamp(min=1e-12).sqrt()[:, None, None]
        signed = size * torch.sign(self.omega)[:, None, None]
        query = torch.cat([query, signed * waves], -1)
        key = torch.cat([key, size * waves], -1)
        out: Tensor = self.performer(query, key, value, coords, clouds)
        return out

    def positional_features(self, coords: Tensor) -> Tensor:
        """(N, coords_dim) to (H, N, P), whose inner products estimate exp(−‖ρ_u − ρ_w‖² / σ²)."""
        # The Fourier transform of exp(−z²/σ²) is a Gaussian of width √2/σ.
        scale = (math.sqrt(2) * torch.exp(-self.log_sigma))[:, None, None]
        angles = lift_periodic(coords, self.periods) @ (
            scale * self.frequencies.to(coords.dtype)
        )  # (H, N, P/2)
        waves: Tensor = torch.cat([angles.cos(), angles.sin()], -1) * (angles.shape[-1] ** -0.5)
        return waves


def make_flt(frame: Frame, width: int) -> AttentionFactory:
    """Make FLT with the sizes of a comparison: 150 random features where others have blocks of 100."""
    return multi_head(
        frame,
        width,
        lambda dim, layer: FLTAttention(
            frame.n_heads,
            dim,
            frame.coords_dim,
            n_random=3 * frame.block_size // 2,
            periods=frame.periods,
        ),
    )
