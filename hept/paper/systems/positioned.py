"""Any attention after an absolute positional encoding: the standard transformer's way of knowing places."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import lift_periodic
from hept.paper.systems.projections import encode_position


class PositionedAttention(nn.Module):
    """attention(x + encode(ρ)).

    Args:
        hidden_dim: Width of the features.
        coords_dim: Coordinates of a point.
        attention: Makes the attention from the two.
        width: Hidden width of the encoding; the knob that matches parameters.
        periods: Period by coordinate for those that are angles.
    """

    def __init__(
        self,
        hidden_dim: int,
        coords_dim: int,
        *,
        attention: Callable[[int, int], nn.Module],
        width: int,
        periods: Mapping[int, float],
    ) -> None:
        super().__init__()
        self.periods = dict(periods)
        self.position = encode_position(coords_dim + len(self.periods), width, hidden_dim)
        self.attention = attention(hidden_dim, coords_dim)

    def forward(self, x: Tensor, coords: Tensor, clouds: Clouds) -> Tensor:
        """(N, hidden_dim) to (N, hidden_dim)."""
        out: Tensor = self.attention(x + self.position(lift_periodic(coords, self.periods)), coords, clouds)
        return out
