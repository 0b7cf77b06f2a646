"""Labels from the references of tracks and towers to their generator particles."""

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


def share_of_leading(
    objects: Jagged,
    references: Jagged,
    generated: Jagged,
    energy: NDArray[np.floating],
    is_pileup: Jagged | None,
    measured: NDArray[np.floating],
) -> NDArray[np.float64]:
    """The fraction of an object's energy that comes from particles of the leading collision.

    A card may store the generator particles of the hard collision only. References that lead nowhere are then
    to pileup, with the energy that was measured beyond that of the particles which are there.

    Args:
        objects: (V + 1,) where events begin, and of every object the number of its references' list.
        references: Unique ids of every list.
        generated: Unique ids of the generator particles.
        energy: Their energies.
        is_pileup: Their pileup flags; None if the file has none.
        measured: Energy of every object.

    Returns:
        One number from 0 to 1 per object, 0 for an object without references.
    """
    offsets, number = objects
    event = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    begins, counts = references[0][number], np.diff(references[0])[number]
    owner = np.repeat(np.arange(len(number)), counts)
    firsts = np.cumsum(counts) - counts
    ids = references[1][np.repeat(begins - firsts, counts) + np.arange(len(owner))].astype(np.uint64)
    known = _keys(*generated)
    order = np.argsort(known, kind="stable")
    wanted = (event[owner] << np.uint64(32)) | (ids & _ID_BITS)
    at = np.searchsorted(known[order], wanted)
    row = order.take(at, mode="clip") if len(order) else np.zeros(len(wanted), dtype=np.int64)
    is_found = known[row] == wanted if len(order) else np.zeros(len(wanted), dtype=bool)
    share = np.where(is_found, energy[row] if len(order) else 0.0, 0.0).astype(np.float64)
    is_leading = is_found.copy()
    if is_pileup is not None and len(is_pileup[1]) == len(known) and len(order):
        is_leading &= is_pileup[1][row] == 0
    leading = np.bincount(owner, weights=share * is_leading, minlength=len(number))
    total = np.bincount(owner, weights=share, minlength=len(number))
    is_partial = np.bincount(owner, weights=~is_found, minlength=len(number)) > 0
    total = np.where(is_partial, np.maximum(total, measured), total)
    return np.divide(leading, total, out=np.zeros(len(number)), where=total > 0)


# ROOT stores the process number in the upper byte of an object's id, but not in a reference.
_ID_BITS = np.uint64(0xFFFFFF)


def _keys(offsets: NDArray[np.int64], ids: NDArray[Any]) -> NDArray[np.uint64]:
    # Ids repeat from event to event: the event number is put above the bits of the id.
    event = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
    return (event << np.uint64(32)) | (ids.astype(np.uint64) & _ID_BITS)
