"""How long OpenMP's threads spin at a barrier; set before torch loads its OpenMP library.

By default an idle thread of libgomp spins for milliseconds before it sleeps. On a busy machine it then takes
the core from the thread that it waits for, and a small operator may take a thousand times as long. Threads
that spin for some 100 µs are as fast on an idle machine, and cost little on a busy one.
"""

from __future__ import annotations

import os

SPIN = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}


def limit_spinning() -> None:
    """Set the limits, unless the user's environment says how to wait. Without effect once torch is loaded."""
    if "OMP_WAIT_POLICY" in os.environ:
        return
    for name, value in SPIN.items():
        os.environ.setdefault(name, value)
