"""What all layers of a model share: coordinates and clouds enter, what depends on nothing else leaves.

Axes: N points, B clouds, P coordinates after lifting angles.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hept.attention.blocks import Blocks


@dataclass(frozen=True)
class CoordRank:
    """Where points lie along one coordinate.

    Attributes:
        rank: (N,) int64, the rank of each point in its cloud.
        turn: (N,) where it lies on its circle, in [0, 1); None where the coordinate is no angle.
    """

    rank: Tensor
    turn: Tensor | None


@dataclass(frozen=True)
class Geometry:
    """Computed once a forward pass.

    Attributes:
        blocks: Cut of the sorted clouds.
        ranks: Of the coordinates that feed AND codes.
        lifted: (N, P) coordinates with angles on circles; None where the kernel does not see them.
    """

    blocks: Blocks
    ranks: tuple[CoordRank, ...]
    lifted: Tensor | None
