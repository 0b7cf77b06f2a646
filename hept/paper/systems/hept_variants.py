"""HEPT with parts removed (paper, Table 3), and HEPT with a positional encoding instead of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from torch import Tensor, nn

from hept.attention.clouds import Clouds
from hept.attention.definition import AND_COORDS, HEPTAttention, lift_periodic
from hept.model.frame import Frame
from hept.model.transformer import AttentionFactory
from hept.paper.systems.projections import encode_position


class PositionedAttention(nn.Module):
    """attention(x + encode(ρ)).

    Args:
        hidden_dim: Width of the features.
        coords_dim: Coordinates of a point.
        attention: Makes the attention from (hidden_dim, coords_dim).
        width: Hidden width of the encoding; chosen to match the number of parameters.
        periods: Periods of the coordinates that are angles, by column.
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


def make_hept(
    frame: Frame,
    width: int = 0,
    *,
    kernel: Literal["gaussian", "dot"] = "gaussian",
    and_coords: Sequence[int] = AND_COORDS,
    n_hidden_codes: int = 0,
    tied_qk: bool = False,
) -> AttentionFactory:
    """Make HEPT's own attention, or a variant with parts removed (paper, Table 3)."""
    return partial(
        HEPTAttention,
        n_heads=frame.n_heads,
        block_size=frame.block_size,
        n_tables=frame.n_tables,
        n_regions=frame.n_regions,
        and_coords=and_coords,
        n_hidden_codes=n_hidden_codes,
        periods=frame.periods,
        kernel=kernel,
        tied_qk=tied_qk,
        backend=frame.backend,
    )


def make_hept_dot(frame: Frame, width: int) -> AttentionFactory:
    """Make HEPT with the standard kernel exp(q·k) and a positional encoding."""
    return partial(
        PositionedAttention, attention=make_hept(frame, kernel="dot"), width=width, periods=frame.periods
    )
