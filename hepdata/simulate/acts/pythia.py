"""Proton collisions by Pythia: one hard process, and soft collisions on top of it.

In: a random generator and a number of tracks. Out: `Born`, the charged particles, and the photons that may
convert. Lengths in mm, momenta in GeV. Axes: K particles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import JobError
from hepdata.simulate.collisions import BEAM_LENGTH, BEAM_WIDTH, MIN_PT
from hepdata.simulate.detector import FloatArray, IntArray

from .packages import import_pythia

ENERGY = 13_000.0
HARD = ("Top:gg2ttbar = on", "Top:qqbar2ttbar = on")
SOFT = ("SoftQCD:inelastic = on",)
# Neutral and strange hadrons decay wherever they do inside the tracker.
_DECAYS = ("ParticleDecays:limitCylinder = on", "ParticleDecays:xyMax = 1000", "ParticleDecays:zMax = 3000")
MAX_ETA = 4.0  # as in the challenge
TRACK_PT = 0.15  # slower particles leave no hits, as in the challenge
MIN_PHOTON_PT = 0.3
_MAX_SEED = 900_000_000  # Pythia's
_TRIES = 10


@dataclass(frozen=True)
class Born:
    """Particles where they are born.

    Attributes:
        barcode: (K, 5) primary vertex, secondary vertex, particle, generation, product: ACTS' five numbers.
        pdg: (K,) kind.
        charge: (K,).
        mass: (K,).
        position: (K, 3).
        momentum: (K, 3).
    """

    barcode: IntArray
    pdg: IntArray
    charge: IntArray
    mass: FloatArray
    position: FloatArray
    momentum: FloatArray

    def __len__(self) -> int:
        return len(self.pdg)

    def __getitem__(self, rows: IntArray | NDArray[np.bool_]) -> Born:
        return Born(*(getattr(self, name)[rows] for name in Born.__dataclass_fields__))

    def pt(self) -> FloatArray:
        """(K,) transverse momenta."""
        values: FloatArray = np.hypot(self.momentum[:, 0], self.momentum[:, 1])
        return values

    @staticmethod
    def join(parts: list[Born]) -> Born:
        """All of them, in order."""
        return Born(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Born.__dataclass_fields__)
        )


class Collider:
    """Two Pythias, one for each kind of collision. A collision depends on its seed alone."""

    def __init__(self) -> None:
        self._hard, self._soft = _start(HARD), _start(SOFT)

    def collide(self, n_tracks: int, rng: np.random.Generator) -> Born:
        """One hard collision, and soft ones until there are about `n_tracks` tracks."""
        parts = [self._collide_once(self._hard, 1, rng)]
        n, added = count_tracks(parts[0]), 0
        while n < n_tracks:
            parts.append(self._collide_once(self._soft, len(parts) + 1, rng))
            added = count_tracks(parts[-1])
            n += added
        # Without the last one when that is closer: the mean is then `n_tracks`.
        if len(parts) > 1 and n - n_tracks > added / 2:
            parts.pop()
        return Born.join(parts)

    def _collide_once(self, pythia: Any, vertex: int, rng: np.random.Generator) -> Born:
        place = rng.normal(size=3) * (BEAM_WIDTH, BEAM_WIDTH, BEAM_LENGTH)
        for _ in range(_TRIES):
            pythia.rndm.init(int(rng.integers(1, _MAX_SEED)))
            if pythia.next():
                return _take_final(pythia.event, vertex, place)
        raise JobError(
            "Pythia",
            found=f"{_TRIES} failures one after another",
            expected="a collision",
            remedy="choose another seed",
        )


def count_tracks(born: Born) -> int:
    """Charged particles that are likely to leave hits."""
    return int(np.count_nonzero((born.charge != 0) & (born.pt() > TRACK_PT)))


def _start(processes: tuple[str, ...]) -> Any:
    pythia = import_pythia().Pythia("", False)
    settings = ("Print:quiet = on", f"Beams:eCM = {ENERGY}", "Random:setSeed = on", "Random:seed = 1")
    for line in (*settings, *_DECAYS, *processes):
        pythia.readString(line)
    if not pythia.init():
        raise JobError(
            "Pythia", found="a failure to start", expected="Pythia 8.3", remedy="reinstall pythia8mc"
        )
    return pythia


def _take_final(event: Any, vertex: int, place: FloatArray) -> Born:
    """Charged particles and photons at the end of an event record."""
    rows = [
        (p.id(), p.charge(), p.m(), p.xProd(), p.yProd(), p.zProd(), p.px(), p.py(), p.pz())
        for p in (event[i] for i in range(event.size()))
        if p.isFinal() and (p.charge() != 0 or p.id() == 22)
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 9)
    pt = np.hypot(table[:, 6], table[:, 7])
    eta = np.arcsinh(table[:, 8] / np.maximum(pt, 1e-9))
    least = np.where(table[:, 1] == 0, MIN_PHOTON_PT, MIN_PT)
    table = table[(pt >= least) & (np.abs(eta) < MAX_ETA)]
    n = len(table)
    # Decays within a micrometre belong to the primary vertex; every other place of birth is a secondary one.
    flown = np.linalg.norm(table[:, 3:6], axis=1) > 1e-3
    secondary = np.zeros(n, dtype=np.int64)
    _, inverse = np.unique(table[flown, 3:6], axis=0, return_inverse=True)
    secondary[flown] = 1 + inverse.reshape(-1)
    barcode = np.zeros((n, 5), dtype=np.int64)
    barcode[:, 0], barcode[:, 1], barcode[:, 2] = vertex, secondary, 1 + np.arange(n)
    return Born(
        barcode,
        table[:, 0].astype(np.int64),
        np.rint(table[:, 1]).astype(np.int64),
        table[:, 2],
        table[:, 3:6] + place,
        table[:, 6:9],
    )
