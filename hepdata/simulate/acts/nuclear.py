"""Hadronic interactions with the material, which Fatras lacks: a hadron stops, and charged secondaries start.

In: what Fatras returned. Out: which crossings remain, and the secondaries. A hadron that crosses λ nuclear
interaction lengths interacts with probability 1 − exp(−λ), at a random one of the modules it crosses. The
number of secondaries grows with the logarithm of the momentum; the first keeps a good share of it; the others
are slow, and a transverse kick of a few hundred MeV turns them. Axes: K particles, n crossings,
I interactions, S secondaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.simulate.collisions import MIN_PT
from hepdata.simulate.detector import FloatArray, IntArray

from .pythia import Born
from .transport import Transported

HADRONS = (211, 321, 2212)
# The layers are thicker in ACTS than the challenge's secondaries tell; with this factor about a fifth of the
# particles with hits are born outside the beam pipe, as there.
DEPTH_SCALE = 0.25
_PION, _PROTON, _KAON = 211, 2212, 321
_MASS = {_PION: 0.13957, _PROTON: 0.93827, _KAON: 0.49368}
_SHARES = {_PION: 0.6, _PROTON: 0.35, _KAON: 0.05}
_MEAN, _MEAN_PER_LOG = 0.8, 1.0  # number of slow secondaries: mean at rest, and its growth with ln(1 + p)
_SLOW = 0.35  # GeV, mean momentum of a slow secondary
_KICK = 0.3  # GeV, scale of the transverse momentum to the parent's direction
_FIRST_VERTEX = 2048  # secondary vertices of decays have smaller numbers


def interact(moved: Transported, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Born]:
    """Choose interactions.

    Returns:
        (n,) which crossings remain, and the secondaries.
    """
    born = moved.particles
    n_hits = np.bincount(moved.particle, minlength=len(born))
    chance = -np.expm1(-DEPTH_SCALE * moved.nuclear_depth)
    meets = (rng.random(len(born)) < chance) & np.isin(np.abs(born.pdg), HADRONS) & (n_hits > 0)
    target = np.floor(rng.random(len(born)) * n_hits).astype(np.int64)

    # The rank of every crossing along its particle's track
    order = np.lexsort((moved.step, moved.particle))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - (np.cumsum(n_hits) - n_hits)[moved.particle[order]]
    at = np.flatnonzero(meets[moved.particle] & (rank == target[moved.particle]))
    at = at[np.argsort(moved.particle[at])]
    remains = ~(meets[moved.particle] & (rank > target[moved.particle]))
    return remains, _make_secondaries(moved, at, rng)


def _make_secondaries(moved: Transported, at: IntArray, rng: np.random.Generator) -> Born:
    momentum, parent = moved.momentum[at], moved.particle[at]
    p = np.linalg.norm(momentum, axis=1)
    n_slow = rng.poisson(_MEAN + _MEAN_PER_LOG * np.log1p(p))
    i = np.repeat(np.arange(len(at)), 1 + n_slow)  # (S,) the interaction of each secondary
    number = np.arange(len(i)) - np.repeat(np.cumsum(1 + n_slow) - (1 + n_slow), 1 + n_slow)
    first = number == 0
    size = np.where(first, p[i] * rng.uniform(0.2, 0.7, len(i)), rng.exponential(_SLOW, len(i)))
    size = np.minimum(size, 0.7 * p[i])
    pdg = rng.choice(list(_SHARES), len(i), p=list(_SHARES.values()))
    pdg = np.where(first, np.abs(moved.particles.pdg[parent[i]]), pdg)
    charge = np.where(
        first,
        moved.particles.charge[parent[i]],
        np.where(pdg == _PROTON, 1, rng.choice([-1, 1], len(i))),
    )
    direction = _deflect(momentum[i] / p[i, None], size, rng)
    barcode = np.zeros((len(i), 5), dtype=np.int64)
    barcode[:, 0] = moved.particles.barcode[parent[i], 0]
    barcode[:, 1] = _FIRST_VERTEX + _count_within(moved.particles.barcode[parent, 0])[i]
    barcode[:, 2] = 1 + number
    born = Born(
        barcode,
        pdg * charge,
        charge,
        np.array([_MASS[int(kind)] for kind in pdg]),
        # Just behind the module, so that it is not crossed again
        moved.position[at][i] + 0.2 * (momentum / p[:, None])[i],
        direction * size[:, None],
    )
    return born[born.pt() >= MIN_PT]


def _deflect(direction: FloatArray, size: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Turn unit vectors (S, 3) by a random kick across them; slow secondaries may go backwards."""
    n = len(direction)
    angle = np.minimum(rng.rayleigh(_KICK, n) / np.maximum(size, 1e-6), 2.0)
    around = rng.uniform(-np.pi, np.pi, n)
    helper = np.where(np.abs(direction[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    a = np.cross(direction, helper)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = np.cross(direction, a)
    across = np.cos(around)[:, None] * a + np.sin(around)[:, None] * b
    turned: FloatArray = np.cos(angle)[:, None] * direction + np.sin(angle)[:, None] * across
    return turned


def _count_within(group: IntArray) -> IntArray:
    """0, 1, 2, … within each group."""
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.append(True, group[order][1:] != group[order][:-1]))[: len(order)]
    sizes = np.diff(np.append(begins, len(order)))
    counts = np.empty(len(group), dtype=np.int64)
    counts[order] = np.arange(len(order)) - np.repeat(begins, sizes)
    return counts
