"""Limit how long OpenMP's threads spin at a barrier; must be set before torch loads its OpenMP library.

By default an idle thread of libgomp spins for milliseconds before it sleeps. On a busy machine it thereby
blocks the core of the thread that it waits for, and a small operator may take a thousand times as long.
Spinning for about 100 µs is as fast on an idle machine, and costs little on a busy one.
"""

from __future__ import annotations

import os

SPIN = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}


def limit_spinning() -> None:
    """Set the limits, unless the environment sets OMP_WAIT_POLICY. No effect after torch was loaded."""
    if "OMP_WAIT_POLICY" in os.environ:
        return
    for name, value in SPIN.items():
        os.environ.setdefault(name, value)
