"""The plane in which the points of a cloud are near or far: the first two coordinates of its schema.

In: columns and coordinates; out: x and y in one unit, y an angle in radians where a coordinate is periodic.
Points are stored along a curve in this plane, and negatives are searched in it. Axis: N points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import TWO_PI
from hepdata.errors import InputError
from hepdata.schema import PLANE, ModelInput

# Within this, a period that was computed from degrees is 2π.
_SAME = 1e-12
# Without a period, coordinates are shrunk below this: the curve wraps y from π on.
_INSIDE = 2.0


@dataclass(frozen=True)
class Plane:
    """Points in a plane or on a cylinder.

    Attributes:
        x: (N,) first coordinate.
        y: (N,) second one; an angle in radians where `is_periodic`.
        is_periodic: Whether y wraps around.
        scale: Length in this plane of one unit of the scaled coordinates.
    """

    x: NDArray[np.floating]
    y: NDArray[np.floating]
    is_periodic: bool
    scale: float


def check_plane(coordinates: Sequence[ModelInput], where: object) -> None:
    """Refuse coordinates that do not make a plane or a cylinder.

    Raises:
        InputError: Fewer than two, or two periods.
    """
    periods = [entry.period for entry in coordinates[PLANE]]
    if len(periods) < 2 or None not in periods:
        raise InputError(
            where,
            found=f"{len(periods)} coordinate" if len(periods) < 2 else "two periodic coordinates first",
            expected="at least two coordinates, of which at most one of the first two has a period",
            remedy="name another one, or give one of them `period: null`",
        )


def place_points(columns: Mapping[str, NDArray[Any]], coordinates: Sequence[ModelInput]) -> Plane:
    """The points of a cloud in the plane of its first two coordinates."""
    first, second = coordinates[PLANE]
    if first.period is not None:
        first, second = second, first
    x, y = _scaled(columns[first.column], first.scale), _scaled(columns[second.column], second.scale)
    if second.period is not None:
        scale = TWO_PI / (second.period * abs(second.scale))
        scale = 1.0 if math.isclose(scale, 1.0, rel_tol=_SAME) else scale
    else:
        reach = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)))
        # A power of two, so that no digit is lost.
        scale = 1.0 if reach == 0 else 2.0 ** math.floor(math.log2(_INSIDE / reach))
    return Plane(_scaled(x, scale), _scaled(y, scale), second.period is not None, scale)


def _scaled(values: NDArray[Any], scale: float) -> NDArray[np.floating]:
    if scale == 1.0 and values.dtype.kind == "f":
        return values
    return np.asarray(values, dtype=np.float64) * scale
