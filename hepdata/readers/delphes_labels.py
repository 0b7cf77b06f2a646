"""Which collision a particle comes from, through the reference from a track to its generator particle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def match_references(
    references: tuple[NDArray[np.int64], NDArray[Any]], generated: tuple[NDArray[np.int64], NDArray[Any]]
) -> NDArray[np.bool_]:
    """Whether each reference is found among the generator particles of its own event.

    A card keeps the generator particles of the hard collision only: a track whose particle is not there comes
    from pileup.

    Args:
        references: Offsets (V + 1,) and flat unique ids that tracks point to.
        generated: Offsets (V + 1,) and flat unique ids of the generator particles.

    Returns:
        One flag per reference.
    """
    wanted = _keys(*references)
    return np.isin(wanted, _keys(*generated))


# ROOT keeps the number of the process in the upper byte of an object's id, and apart from it in a reference.
_ID_BITS = np.uint64(0xFFFFFF)


def _keys(offsets: NDArray[np.int64], ids: NDArray[Any]) -> NDArray[np.uint64]:
    # Ids repeat from event to event: the event's number goes above the bits of an id.
    event = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    return (event << np.uint64(32)) | (ids.astype(np.uint64) & _ID_BITS)
