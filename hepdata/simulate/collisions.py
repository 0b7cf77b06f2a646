"""Charged particles of one bunch crossing: many vertices along the beam, jets, and decays in flight.

In: how many particles, and a random generator. Out: `Particles`. Lengths in mm, momenta in GeV.
Axes: V vertices, K particles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hepdata.schema import SCORED_PT

from .detector import FloatArray, IntArray

BEAM_WIDTH, BEAM_LENGTH = 0.015, 50.0  # standard deviations of the luminous region
MIN_PT = 0.1  # as in the challenge: softer particles are left out
# Spectrum of pt: survival (1 + (pt − MIN_PT)/scale)^−power, with this share above `SCORED_PT` (more than
# a seventh, since the products of decays are softer)
SPECTRUM_POWER, HIGH_PT_SHARE = 3.5, 0.164
FLAT_ETA, ETA_EDGE = 3.8, 0.15  # density in η: flat, with soft edges
# Each vertex has two jets, opposite in φ, with this share of its particles; width in η and φ.
JET_SHARE, JET_WIDTH = 0.6, 0.12
DECAY_SHARE = 0.15  # of the particles made at a vertex

# mass, cτ (mm) and the masses of the two charged products: K0S and Λ
_DECAYS = ((0.4976, 26.84, 0.1396, 0.1396), (1.1157, 78.9, 0.9383, 0.1396))
_KAON_SHARE = 0.7
_MAX_VERTICES = 1500  # 11 bits are left for the vertex in a positive particle_id


@dataclass(frozen=True)
class Particles:
    """Charged particles where they are born, in the order of their numbers.

    Attributes:
        particle_id: (K,) vertex, secondary vertex, particle, generation and product, in 12+12+16+8+16 bits.
        position: (K, 3).
        momentum: (K, 3).
        charge: (K,) ±1.
    """

    particle_id: IntArray
    position: FloatArray
    momentum: FloatArray
    charge: IntArray

    def __len__(self) -> int:
        return len(self.particle_id)

    def __getitem__(self, rows: IntArray | slice) -> Particles:
        return Particles(self.particle_id[rows], self.position[rows], self.momentum[rows], self.charge[rows])


def collide(n_particles: int, rng: np.random.Generator) -> Particles:
    """Draw about `n_particles` charged particles or more, from as many vertices as needed."""
    # Small events still have several vertices; large ones about as many particles in each as at the LHC.
    mean = max(min(45.0, max(5.0, n_particles / 8)), n_particles / _MAX_VERTICES)
    n_vertices = int(np.ceil(n_particles / mean)) + 2
    multiplicity = 1 + rng.poisson(rng.gamma(2.0, mean / 2, n_vertices))
    vertices = rng.normal(size=(n_vertices, 3)) * (BEAM_WIDTH, BEAM_WIDTH, BEAM_LENGTH)
    vertex = np.repeat(np.arange(n_vertices), multiplicity)
    number = np.arange(len(vertex)) - np.repeat(np.cumsum(multiplicity) - multiplicity, multiplicity)
    # Vertices are numbered from 2: then every particle_id exceeds the exact integers of a float64.
    barcode = ((vertex.astype(np.int64) + 2) << 52) | ((number.astype(np.int64) + 1) << 24)
    momentum = _draw_momenta(vertex, rng)
    decays = rng.random(len(vertex)) < DECAY_SHARE
    stable = Particles(
        barcode[~decays],
        vertices[vertex[~decays]],
        momentum[~decays],
        rng.choice(np.array([-1, 1]), np.count_nonzero(~decays)),
    )
    products = _decay(barcode[decays], vertices[vertex[decays]], momentum[decays], rng)
    return _join_sorted(stable, products)


def _draw_momenta(vertex: IntArray, rng: np.random.Generator) -> FloatArray:
    n, n_vertices = len(vertex), int(vertex[-1]) + 1
    scale = (SCORED_PT - MIN_PT) / (HIGH_PT_SHARE ** (-1 / SPECTRUM_POWER) - 1)
    pt = MIN_PT + scale * ((1 - rng.random(n)) ** (-1 / SPECTRUM_POWER) - 1)
    phi = rng.uniform(-np.pi, np.pi, n)
    eta = rng.uniform(-FLAT_ETA, FLAT_ETA, n) + rng.normal(0, ETA_EDGE, n)
    jet_phi = rng.uniform(-np.pi, np.pi, n_vertices)
    jet_eta = rng.uniform(-FLAT_ETA, FLAT_ETA, (n_vertices, 2))
    side, is_in_jet = rng.integers(0, 2, n), rng.random(n) < JET_SHARE
    around = rng.normal(0, JET_WIDTH, (2, n))
    phi = np.where(is_in_jet, jet_phi[vertex] + np.pi * side + around[0], phi)
    eta = np.where(is_in_jet, jet_eta[vertex, side] + around[1], eta)
    return np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], axis=1)


def _decay(
    barcode: IntArray, origin: FloatArray, momentum: FloatArray, rng: np.random.Generator
) -> Particles:
    """Fly neutral parents along straight lines and let each decay into two charged products."""
    n = len(barcode)
    table = np.array(_DECAYS)[(rng.random(n) >= _KAON_SHARE).astype(np.int64)]
    mass, lifetime, mass_a, mass_b = table.T
    where = origin + momentum / mass[:, None] * (lifetime * rng.exponential(size=n))[:, None]
    p_star = np.sqrt((mass**2 - (mass_a + mass_b) ** 2) * (mass**2 - (mass_a - mass_b) ** 2)) / (2 * mass)
    cos, azimuth = rng.uniform(-1, 1, n), rng.uniform(-np.pi, np.pi, n)
    sin = np.sqrt(1 - cos**2)
    star = p_star[:, None] * np.stack([sin * np.cos(azimuth), sin * np.sin(azimuth), cos], axis=1)
    first = _boost(star, np.hypot(p_star, mass_a), momentum, mass)
    charge = rng.choice(np.array([-1, 1]), n)
    # A decay opens the parent's secondary vertex 1; its products are of generation 1, numbered 1 and 2.
    number = barcode | (1 << 40) | (1 << 16)
    return Particles(
        np.concatenate([number | 1, number | 2]),
        np.concatenate([where, where]),
        np.concatenate([first, momentum - first]),
        np.concatenate([charge, -charge]),
    )


def _boost(star: FloatArray, energy_star: FloatArray, parent: FloatArray, mass: FloatArray) -> FloatArray:
    """Momenta of products with `star` in the frame of a parent of momentum `parent`."""
    energy = np.sqrt((parent**2).sum(axis=1) + mass**2)
    along = (star * parent).sum(axis=1)
    boosted: FloatArray = star + parent * ((along / (energy + mass) + energy_star) / mass)[:, None]
    return boosted


def _join_sorted(stable: Particles, products: Particles) -> Particles:
    joined = Particles(
        np.concatenate([stable.particle_id, products.particle_id]),
        np.concatenate([stable.position, products.position]),
        np.concatenate([stable.momentum, products.momentum]),
        np.concatenate([stable.charge, products.charge]),
    )
    order = np.argsort(joined.particle_id, kind="stable")
    pt = np.hypot(joined.momentum[:, 0], joined.momentum[:, 1])
    return joined[order[pt[order] >= MIN_PT]]
