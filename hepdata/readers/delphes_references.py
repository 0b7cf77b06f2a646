"""Arrays of references (TRefArray) of a Delphes branch, such as `Tower.Particles`: bytes in, ids out.

uproot makes a Python object of every array; here the bytes are read as ROOT writes them. Axes: P particles, R
references of all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import uproot
from numpy.typing import NDArray

Jagged = tuple[NDArray[np.int64], NDArray[Any]]
"""Offsets and flat values."""

# Byte count and version, TObject, then name, size, lower bound and process number around the references.
_BEFORE_NAME, _AFTER_NAME = 16, 10
_BYTES = uproot.interpretation.jagged.AsJagged(uproot.interpretation.numerical.AsDtype("u1"))


def read_references(branch: Any, start: int, stop: int) -> tuple[NDArray[np.int64], Jagged]:
    """The references of every particle of entries [start, stop).

    Returns:
        (V + 1,) where each event begins on the axis of particles; and for every particle its references.

    Raises:
        ValueError: Bytes that are no arrays of references.
    """
    array = branch.array(_BYTES, entry_start=start, entry_stop=stop, library="ak")
    layout = array.layout.to_ListOffsetArray64(True)
    limits = np.asarray(layout.offsets.data)
    data = np.ascontiguousarray(layout.content.data[: limits[-1]])
    begins, ends = _find_arrays(data.tobytes(), int(limits[-1]))
    name_length = data[begins + _BEFORE_NAME].astype(np.int64) if len(begins) else begins
    first = begins + _BEFORE_NAME + 1 + name_length + _AFTER_NAME
    counts, rest = np.divmod(ends - first, 4)
    offsets = np.searchsorted(begins, limits)
    # Every event begins where an array does.
    is_whole = np.isin(limits, np.append(begins, limits[-1])).all()
    if (rest != 0).any() or (counts < 0).any() or not is_whole:
        raise ValueError(f"{branch.name} holds no arrays of references")
    ref_offsets = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(ref_offsets[-1]) - np.repeat(ref_offsets[:-1], counts)
    at = np.repeat(first, counts) + 4 * within
    references = data[at[:, None] + np.arange(4)].reshape(-1).view(">u4").astype(np.uint32)
    return offsets, (ref_offsets, references)


def _find_arrays(data: bytes, n_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each array begins and ends; each says its length."""
    begins, ends, at = [], [], 0
    while at < n_bytes:
        begins.append(at)
        at += 4 + (int.from_bytes(data[at : at + 4], "big") & 0x3FFFFFFF)
        ends.append(at)
        if at < begins[-1] + _BEFORE_NAME + 1 or at > n_bytes:
            raise ValueError(f"an array of references that ends at byte {at} of {n_bytes}")
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)
