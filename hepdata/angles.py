"""Azimuth on the circle: φ is wrapped here and nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TWO_PI = 2.0 * np.pi


def wrap_phi(phi: NDArray[np.floating]) -> NDArray[np.floating]:
    """φ wrapped into [−π, π), with the dtype of the input; angles in that range keep every bit."""
    phi = np.asarray(phi)
    if ((phi >= -np.pi) & (phi < np.pi)).all():
        return phi.copy()
    dtype = phi.dtype
    wrapped = np.mod(np.asarray(phi, dtype=np.float64) + np.pi, TWO_PI) - np.pi
    # Rounding to float32 can give a value slightly above π.
    narrow = wrapped.astype(dtype)
    return np.where(narrow >= np.asarray(np.pi, dtype=dtype), np.asarray(-np.pi, dtype=dtype), narrow)


def delta_phi(phi: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.floating]:
    """The signed angle from `other` to `phi`, in [−π, π)."""
    return wrap_phi(np.asarray(phi) - np.asarray(other))
