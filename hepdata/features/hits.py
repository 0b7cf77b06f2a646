"""Coordinates of hits: r, φ, z, η and the conformal u, v.

In: hit positions in mm; out: one array per quantity, float64. Axis: J hits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi
from hepdata.errors import InputError
from hepdata.readers.trackml_table import Columns


def pseudorapidity(transverse: NDArray[np.float64], longitudinal: NDArray[np.float64]) -> NDArray[np.float64]:
    """η = −ln tan(θ/2) with tan θ = transverse/longitudinal; asinh keeps its precision near η = 0."""
    return np.asarray(np.arcsinh(longitudinal / transverse))


def locate_hits(hits: Columns, event: str) -> dict[str, NDArray[np.float64]]:
    """r, φ, z, η, u, v of every hit.

    Args:
        hits: hit_id, x, y, z.
        event: Name of the event, for messages.

    Raises:
        InputError: A hit lies on the beam axis, where φ, η, u and v are undefined.
    """
    x, y, z = hits["x"], hits["y"], hits["z"]
    # np.hypot takes ten times as long; nothing overflows in a detector.
    square = x * x + y * y
    r = np.sqrt(square)
    # Below a micrometre, u = x/r² is beyond the precision of float32.
    on_axis = np.flatnonzero(r < 1e-3)
    if len(on_axis):
        hit = on_axis[0]
        raise InputError(
            event,
            found=f"hit {hits['hit_id'][hit]} on the beam axis (x = {x[hit]}, y = {y[hit]})",
            expected="hits with r > 0",
            remedy="repair the hits file or leave the event out",
        )
    return {
        "r": r,
        "phi": np.asarray(wrap_phi(np.arctan2(y, x)), dtype=np.float64),
        "z": z,
        "eta": pseudorapidity(r, z),
        "u": x / square,
        "v": y / square,
    }
