"""Jets: particles and weights enter, matched jet momenta leave. Needs the optional dependency fastjet."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import delta_phi
from hepdata.errors import missing_extra

R_JET = 0.4
PT_MIN = 20.0
R_MATCH = 0.3


@dataclass(frozen=True)
class Jets:
    """Jets of one event, hardest first: pT in GeV, η, φ."""

    pt: NDArray[np.float64]
    eta: NDArray[np.float64]
    phi: NDArray[np.float64]


def find_jets(
    px: NDArray[np.floating],
    py: NDArray[np.floating],
    eta: NDArray[np.floating],
    energy: NDArray[np.floating],
    weight: NDArray[np.floating],
    *,
    pt_min: float = PT_MIN,
) -> Jets:
    """Anti-kT jets (R = 0.4) of the weighted particles of one event.

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
    particles = [
        fastjet.PseudoJet(*map(float, momentum))
        for momentum in zip(w * px[used], w * py[used], w * pz, w * energy[used], strict=True)
    ]
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, R_JET)
    _swallow_banner()
    # The sequence must outlive the jets that point into it.
    sequence = fastjet.ClusterSequence(particles, definition)
    found = fastjet.sorted_by_pt(sequence.inclusive_jets(pt_min))
    rows = np.array([(jet.pt(), jet.eta(), jet.phi_std()) for jet in found]).reshape(-1, 3)
    return Jets(rows[:, 0], rows[:, 1], rows[:, 2])


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
            fastjet.JetDefinition(fastjet.antikt_algorithm, R_JET),
        )
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def match_jets(true: Jets, found: Jets) -> NDArray[np.float64]:
    """(J,) found pT / true pT of the true jets, each with the nearest found jet within ΔR 0.3, or NaN."""
    response = np.full(len(true.pt), np.nan)
    is_free = np.ones(len(found.pt), dtype=bool)
    for i in range(len(true.pt)):
        delta_r = np.hypot(found.eta - true.eta[i], delta_phi(found.phi, true.phi[i : i + 1]))
        delta_r[~is_free] = np.inf
        if len(delta_r) and delta_r.min() < R_MATCH:
            nearest = int(delta_r.argmin())
            response[i] = found.pt[nearest] / true.pt[i]
            is_free[nearest] = False
    return response
