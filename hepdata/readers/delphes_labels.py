"""Labels from the references of tracks to their generator particles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Jagged = tuple[NDArray[np.int64], NDArray[Any]]
"""Offsets (V + 1,) and flat values."""


def match_references(references: Jagged, generated: Jagged, is_pileup: Jagged | None) -> NDArray[np.bool_]:
    """Whether each reference points to a generator particle of the leading collision in its event.

    Most cards store the generator particles of the hard collision only: a track without one comes from
    pileup. Cards that store all of them have a pileup flag.

    Args:
        references: Unique ids that tracks refer to.
        generated: Unique ids of the generator particles.
        is_pileup: Their pileup flags; None if the file has none.

    Returns:
        One flag per reference.
    """
    known = _keys(*generated)
    if is_pileup is not None and len(is_pileup[1]) == len(known):
        known = known[is_pileup[1] == 0]
    return np.isin(_keys(*references), known)


# ROOT stores the process number in the upper byte of an object's id, but not in a reference.
_ID_BITS = np.uint64(0xFFFFFF)


def _keys(offsets: NDArray[np.int64], ids: NDArray[Any]) -> NDArray[np.uint64]:
    # Ids repeat from event to event: the event number is put above the bits of the id.
    event = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    return (event << np.uint64(32)) | (ids.astype(np.uint64) & _ID_BITS)
