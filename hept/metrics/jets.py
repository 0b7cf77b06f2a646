"""Jets: particles and weights enter, matched jets leave. Needs the optional dependency fastjet.

Axes: N particles, J jets of one event.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import delta_phi
from hepdata.errors import missing_extra

# Radius to the pT in GeV of the true jets that count.
PT_MIN = {0.4: 20.0, 0.8: 50.0}
# Jets are matched down to this fraction of PT_MIN, so that a low response does not lose a true jet.
FOUND_PART = 0.5
# Largest distance of matched jets, in units of the radius.
MATCH_PART = 0.75


@dataclass(frozen=True)
class Jets:
    """Jets of one event, hardest first: pT and mass in GeV, η, φ, number of particles with a weight."""

    pt: NDArray[np.float64]
    eta: NDArray[np.float64]
    phi: NDArray[np.float64]
    mass: NDArray[np.float64]
    n_constituents: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.pt)


def find_jets(
    px: NDArray[np.floating],
    py: NDArray[np.floating],
    eta: NDArray[np.floating],
    energy: NDArray[np.floating],
    weight: NDArray[np.floating],
    *,
    radius: float = 0.4,
    pt_min: float = 20.0,
) -> Jets:
    """Anti-kT jets of the weighted particles of one event.

    Args:
        px: (N,) in GeV.
        py: (N,).
        eta: (N,).
        energy: (N,).
        weight: (N,) factor of each four-momentum; particles of weight 0 are left out.
        radius: R.
        pt_min: Softest jet to return, in GeV.

    Raises:
        InputError: fastjet is not installed.
    """
    try:
        import fastjet
    except ImportError as error:
        raise missing_extra("fastjet", "jets") from error
    used = np.flatnonzero(weight > 0)
    w = weight[used].astype(np.float64)
    pz = np.hypot(px[used], py[used]) * np.sinh(eta[used].astype(np.float64))
    momenta = np.stack([w * px[used], w * py[used], w * pz, w * energy[used]], axis=1)
    particles = [fastjet.PseudoJet(*momentum) for momentum in momenta.tolist()]
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, radius)
    _swallow_banner()
    # The sequence must outlive the jets that point into it.
    sequence = fastjet.ClusterSequence(particles, definition)
    found = fastjet.sorted_by_pt(sequence.inclusive_jets(pt_min))
    rows = [(j.pt(), j.eta(), j.phi_std(), j.m(), len(sequence.constituents(j))) for j in found]
    return Jets(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)


@cache
def _swallow_banner() -> None:
    """Cluster one particle with standard output discarded: fastjet prints a banner at its first use.

    The banner comes from C++, and the Python module lacks C++'s `set_fastjet_banner_stream`. It asks to cite
    Cacciari, Salam and Soyez, Eur. Phys. J. C 72 (2012) 1896 [arXiv:1111.6097].
    """
    import fastjet

    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        fastjet.ClusterSequence(
            [fastjet.PseudoJet(1.0, 0.0, 0.0, 1.0)],
            fastjet.JetDefinition(fastjet.antikt_algorithm, 0.4),
        )
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def match_jets(true: Jets, found: Jets, *, radius: float = 0.4) -> NDArray[np.int64]:
    """(J,) index of the found jet of each true jet, or −1.

    True jets choose in the order of their pT, each the nearest found jet within ¾ R that is still free.
    """
    match = np.full(len(true), -1, dtype=np.int64)
    is_free = np.ones(len(found), dtype=bool)
    for i in range(len(true)):
        delta_r = np.hypot(found.eta - true.eta[i], delta_phi(found.phi, true.phi[i : i + 1]))
        delta_r[~is_free] = np.inf
        if len(delta_r) and delta_r.min() < MATCH_PART * radius:
            match[i] = int(delta_r.argmin())
            is_free[match[i]] = False
    return match
