"""Which layers of the detector a dataset uses, and how they are numbered.

Numbers are those of the detector, not of the event: a layer without hits keeps its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The pixel detector of TrackML: (volume, layer) in order, numbered 0 … 17.
PIXEL_LAYERS: tuple[tuple[int, int], ...] = (
    *((7, layer) for layer in range(2, 15, 2)),
    *((8, layer) for layer in range(2, 9, 2)),
    *((9, layer) for layer in range(2, 15, 2)),
)


def number_layers(
    volume_id: NDArray[Any], layer_id: NDArray[Any], layers: Sequence[tuple[int, int]]
) -> NDArray[np.int64]:
    """The position of each hit's (volume, layer) in `layers`, −1 where it is not among them."""
    known = np.array([(volume << 16) + layer for volume, layer in layers], dtype=np.int64)
    key = (np.asarray(volume_id, dtype=np.int64) << 16) + layer_id
    order = np.argsort(known)
    slot = np.minimum(np.searchsorted(known[order], key), len(known) - 1)
    return np.where(known[order][slot] == key, order[slot], -1)
