"""Collisions with pileup: a seed and a number of soft collisions in, the stable particles of one event out.

A toy with the parts that matter for pileup mitigation. Soft collisions fill a rapidity plateau with the
species mix and the falling pT spectrum of minimum-bias events, some with a mini-jet. The leading collision is
four to seven jets, a lepton and an underlying event of its own. Its numbers follow tt̄ events of Pythia and
Delphes with 50 pileup collisions: particles, momenta and species by |η|, and jets; `docs/pileup.md` has both
side by side.

Axes: N particles of one event, J jets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi
from hepdata.masses import mass_of

Floats = NDArray[np.float64]

# PID: (charge, share among the particles of a soft collision before π⁰ decay)
_SPECIES: dict[int, tuple[int, float]] = {
    11: (-1, 0.0055),
    13: (-1, 0.0004),
    22: (0, 0.0),
    111: (0, 0.230),
    130: (0, 0.023),
    211: (1, 0.374),
    310: (0, 0.0235),
    321: (1, 0.047),
    2112: (0, 0.025),
    2212: (1, 0.028),
    3122: (0, 0.0093),
    3322: (0, 0.0008),
}
_CODES = sorted(_SPECIES)
_PI_ZERO, _PHOTON = 111, 22
_OWN_ANTIPARTICLE = (_PI_ZERO, _PHOTON, 130, 310)

_PARTICLES_PER_COLLISION = 138.0  # before π⁰ decay
_UNDERLYING_EVENT = 250.0
_SOFT_SCALE = 0.26  # GeV, of the pT spectrum
_MINI_JET_RATE = 0.15  # per soft collision
_PLATEAU = 6.6  # |y| at which the density has fallen by half
_MAX_ENERGY = 6500.0  # GeV
_VERTEX_SPREAD = 53.0  # mm along the beam


@dataclass(frozen=True)
class _JetKind:
    """What the fragments of a jet are like.

    Attributes:
        n_fragments: Their mean number before π⁰ decay.
        pt: Median pT of a massless fragment in GeV.
        spread: Standard deviation of log pT from jet to jet.
        fragment_spread: Standard deviation of log pT among the fragments of a jet.
        width: Distance of a fragment of 1 GeV from the axis.
        plateau: |y| at which the density of axes has fallen by half.
    """

    n_fragments: float
    pt: float
    spread: float
    fragment_spread: float
    width: float
    plateau: float


_HARD_JET = _JetKind(n_fragments=20.0, pt=1.4, spread=0.5, fragment_spread=1.15, width=0.2, plateau=2.4)
_MINI_JET = _JetKind(n_fragments=10.0, pt=0.8, spread=0.3, fragment_spread=0.7, width=0.25, plateau=4.5)


@dataclass(frozen=True)
class Particles:
    """Stable particles of one event, those of the leading collision first, as Delphes writes them.

    Attributes:
        pid: (N,) PDG code, antiparticles negative.
        charge: (N,) in units of e.
        mass: (N,) GeV.
        pt: (N,) GeV.
        eta: (N,) pseudorapidity.
        phi: (N,) azimuth in [−π, π).
        vertex_z: (N,) mm, position along the beam of the collision it comes from.
        is_pileup: (N,) whether it comes from a soft collision.
    """

    pid: NDArray[np.int32]
    charge: NDArray[np.int32]
    mass: Floats
    pt: Floats
    eta: Floats
    phi: Floats
    vertex_z: Floats
    is_pileup: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.pid)


def simulate_event(pileup: float, seed: int, event: int) -> Particles:
    """One event: a leading collision over Poisson(`pileup`) soft ones.

    Args:
        pileup: Mean number of soft collisions.
        seed: Seed of the sample.
        event: Number of the event in it; an event depends on (seed, event) only, not on how many are made.
    """
    rng = np.random.default_rng([seed, event])
    n_soft = int(rng.poisson(pileup))
    draw = _decay_pions(_concatenate([_draw_leading(rng), _draw_soft(rng, n_soft)]), rng)
    draw = _select(draw, np.argsort(draw.collision, kind="stable"))
    pid = draw.pid.astype(np.int32)
    mass = _mass_of(draw.pid)
    charge = np.array([_SPECIES[code][0] for code in _CODES])[np.searchsorted(_CODES, np.abs(pid))]
    transverse_mass = np.hypot(draw.pt, mass)
    # No particle takes more than the beam has.
    limit = np.arccosh(np.maximum(_MAX_ENERGY / transverse_mass, 1.0))
    y = np.clip(draw.y, -limit, limit)
    vertices = rng.normal(0.0, _VERTEX_SPREAD, n_soft + 1)
    return Particles(
        pid=pid,
        charge=(charge * np.sign(pid)).astype(np.int32),
        mass=mass,
        pt=draw.pt,
        eta=np.arcsinh(transverse_mass * np.sinh(y) / draw.pt),
        phi=wrap_phi(draw.phi).astype(np.float64),
        vertex_z=vertices[draw.collision],
        is_pileup=draw.collision > 0,
    )


@dataclass(frozen=True)
class _Draw:
    """Particles in the making: by rapidity, with the collision that each is of (0 is the leading one)."""

    pid: NDArray[np.int64]
    pt: Floats
    y: Floats
    phi: Floats
    collision: NDArray[np.int64]


def _draw_leading(rng: np.random.Generator) -> _Draw:
    n_jets = int(rng.integers(4, 8))
    # Axes all around the beam, since momenta balance.
    axis_phi = rng.uniform(-np.pi, np.pi) + 2 * np.pi / n_jets * np.arange(n_jets)
    spread: Floats = rng.normal(0.0, 0.4, n_jets)
    jets = _draw_jets(rng, np.zeros(n_jets, dtype=np.int64), axis_phi + spread, _HARD_JET)
    n_underlying = int(rng.poisson(_UNDERLYING_EVENT * rng.gamma(3.0, 1 / 3)))
    underlying = _draw_bulk(rng, np.zeros(n_underlying, dtype=np.int64))
    lepton = _Draw(
        pid=rng.choice([-13, -11, 11, 13], 1),
        pt=20.0 + rng.gamma(2.0, 12.0, 1),
        y=_draw_rapidity(rng, 1, 2.4, 0.2),
        phi=rng.uniform(-np.pi, np.pi, 1),
        collision=np.zeros(1, dtype=np.int64),
    )
    return _concatenate([lepton, jets, underlying])


def _draw_soft(rng: np.random.Generator, n_collisions: int) -> _Draw:
    # Gamma-mixed Poisson: collisions fluctuate by far more than √n, as the real ones do.
    counts = rng.poisson(_PARTICLES_PER_COLLISION * rng.gamma(2.0, 0.5, n_collisions))
    number = np.arange(1, n_collisions + 1)
    bulk = _draw_bulk(rng, np.repeat(number, counts))
    with_jet = number[rng.random(n_collisions) < _MINI_JET_RATE]
    axis_phi = rng.uniform(-np.pi, np.pi, len(with_jet))
    return _concatenate([bulk, _draw_jets(rng, with_jet, axis_phi, _MINI_JET)])


def _draw_bulk(rng: np.random.Generator, collision: NDArray[np.int64]) -> _Draw:
    n = len(collision)
    pid = _draw_species(rng, n)
    y = _draw_rapidity(rng, n, _PLATEAU, 0.7)
    # Heavier species are harder (radial flow); forward ones are softer.
    pt = _draw_pt(rng, n, _SOFT_SCALE * (1.0 + 0.7 * _mass_of(pid)) * np.exp(-0.5 * (y / 7.0) ** 2))
    return _Draw(pid, pt, y, rng.uniform(-np.pi, np.pi, n), collision)


def _draw_jets(
    rng: np.random.Generator, collision: NDArray[np.int64], axis_phi: Floats, kind: _JetKind
) -> _Draw:
    """Fragments of J jets, collimated about their axes; `collision` (J,) is what each jet comes from.

    All species have the same spectrum but for their mass: charged particles carry about 60 % of a jet.
    """
    n_jets = len(collision)
    axis_y = _draw_rapidity(rng, n_jets, kind.plateau, 0.5)
    scale = kind.pt * np.exp(rng.normal(0.0, kind.spread, n_jets))
    jet = np.repeat(np.arange(n_jets), rng.poisson(kind.n_fragments, n_jets))
    n = len(jet)
    pid = _draw_species(rng, n)
    pt = scale[jet] * (1.0 + _mass_of(pid)) * np.exp(rng.normal(0.0, kind.fragment_spread, n))
    # Harder fragments lie closer to the axis.
    width = np.clip(kind.width / np.sqrt(pt), 0.01, 0.4)
    y = axis_y[jet] + rng.normal(0.0, 1.0, n) * width
    phi = axis_phi[jet] + rng.normal(0.0, 1.0, n) * width
    return _Draw(pid, pt, y, phi, collision[jet])


def _draw_species(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    known = np.array([pid for pid in _CODES if pid != _PHOTON])
    shares = np.array([_SPECIES[pid][1] for pid in known])
    pid = rng.choice(known, size=n, p=shares / shares.sum())
    sign = np.where(rng.random(n) < 0.5, -1, 1)
    return np.where(np.isin(pid, _OWN_ANTIPARTICLE), pid, sign * pid)


def _draw_rapidity(rng: np.random.Generator, n: int, edge: float, softness: float) -> Floats:
    """Flat to about ±`edge`, falling over a few `softness`: a uniform edge smeared by a logistic one."""
    return rng.uniform(-1.0, 1.0, n) * np.maximum(edge + rng.logistic(0.0, softness, n), 0.5)


def _mass_of(pid: NDArray[np.int64]) -> Floats:
    return np.array([mass_of(code) for code in _CODES], dtype=float)[np.searchsorted(_CODES, np.abs(pid))]


def _draw_pt(rng: np.random.Generator, n: int, scale: Floats) -> Floats:
    """A thermal spectrum of fluctuating temperature (Tsallis): exponential first, a power law in the tail."""
    temperature = scale * 6.0 / rng.gamma(7.0, 1.0, n)
    return rng.gamma(2.0, 1.0, n) * temperature + 1e-3


def _decay_pions(draw: _Draw, rng: np.random.Generator) -> _Draw:
    """Every π⁰ replaced by its two photons, isotropic in its rest frame."""
    is_pion = draw.pid == _PI_ZERO
    mass = _mass_of(np.array(_PI_ZERO))
    pt, y, phi = draw.pt[is_pion], draw.y[is_pion], draw.phi[is_pion]
    transverse_mass = np.hypot(pt, mass)
    momentum = np.stack([pt * np.cos(phi), pt * np.sin(phi), transverse_mass * np.sinh(y)], axis=1)  # (π⁰, 3)
    energy = transverse_mass * np.cosh(y)
    cosine, turn = rng.uniform(-1.0, 1.0, len(pt)), rng.uniform(-np.pi, np.pi, len(pt))
    sine = np.sqrt(1.0 - cosine**2)
    axis = 0.5 * mass * np.stack([sine * np.cos(turn), sine * np.sin(turn), cosine], axis=1)
    along = np.sum(axis * momentum, axis=1) / mass
    boosted = axis + (along / (energy + mass))[:, None] * momentum
    first = boosted + 0.5 * momentum
    return _concatenate(
        [
            _select(draw, ~is_pion),
            _photons(first, draw.collision[is_pion]),
            _photons(momentum - first, draw.collision[is_pion]),
        ]
    )


def _photons(momentum: Floats, collision: NDArray[np.int64]) -> _Draw:
    pt = np.hypot(momentum[:, 0], momentum[:, 1])
    pt = np.maximum(pt, 1e-6)
    return _Draw(
        pid=np.full(len(pt), _PHOTON, dtype=np.int64),
        pt=pt,
        y=np.arcsinh(momentum[:, 2] / pt),
        phi=np.arctan2(momentum[:, 1], momentum[:, 0]),
        collision=collision,
    )


def _select(draw: _Draw, keep: NDArray[np.bool_ | np.int64]) -> _Draw:
    return _Draw(draw.pid[keep], draw.pt[keep], draw.y[keep], draw.phi[keep], draw.collision[keep])


def _concatenate(parts: list[_Draw]) -> _Draw:
    return _Draw(
        pid=np.concatenate([part.pid for part in parts]),
        pt=np.concatenate([part.pt for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        phi=np.concatenate([part.phi for part in parts]),
        collision=np.concatenate([part.collision for part in parts]),
    )
