"""Propagate particles through the detector: which modules they cross, where, and how they scatter.

In: `Particles`, a `Detector`, a random generator. Out: `Crossings`, one row for each module crossed.
Every layer is first met at its ideal cylinder or disc; only the few modules near that point are then tried,
each exactly. |z| grows along a track and the discs lie beyond the barrel's ends, so the order of the layers
is the same for all particles and they walk together. Axes: K particles, C candidate modules of one layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hepdata.angles import wrap_phi

from .collisions import Particles
from .detector import BarrelLayer, Detector, DiscRing, FloatArray, IntArray, slot_azimuths
from .helix import Helices, azimuth_at_cylinder, deflect, launch, length_to_disc, length_to_upright_plane

_PION_MASS = 0.1396  # GeV


@dataclass(frozen=True)
class Crossings:
    """Modules crossed, layer by layer.

    Attributes:
        particle: (n,) row of the particle.
        module: (n,) row of the module.
        step: (n,) rank of the layer along the track, for the order of a particle's hits.
        position: (n, 3) on the middle plane of the module, mm.
        momentum: (n, 3) there, before this layer's scattering, GeV.
    """

    particle: IntArray
    module: IntArray
    step: IntArray
    position: FloatArray
    momentum: FloatArray

    def __len__(self) -> int:
        return len(self.particle)

    def __getitem__(self, rows: IntArray) -> Crossings:
        return Crossings(
            self.particle[rows], self.module[rows], self.step[rows], self.position[rows], self.momentum[rows]
        )

    @staticmethod
    def join(parts: list[Crossings]) -> Crossings:
        """All of them, in order."""
        names = Crossings.__dataclass_fields__
        return Crossings(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def trace(
    particles: Particles, detector: Detector, rng: np.random.Generator, *, scattering: bool = True
) -> Crossings:
    """Walk all particles through all layers.

    Args:
        particles: Starting points and momenta.
        detector: Modules and field.
        rng: Draws the scattering angles.
        scattering: Whether particles are deflected; without it each stays on one helix.
    """
    helices = launch(particles.position, particles.momentum, particles.charge, detector.layout.field)
    found: list[Crossings] = []
    n_barrel = len(detector.barrel)
    for step in range(n_barrel + len(detector.layout.disc_z)):
        if step < n_barrel:
            module, length = _try_barrel(helices, detector, detector.barrel[step])
        else:
            module, length = _try_disc(helices, detector, step - n_barrel)
        hit = np.isfinite(length)
        row, column = np.nonzero(hit)
        at = helices[row].walk(length[row, column])
        found.append(Crossings(row, module[row, column], np.full(len(row), step), at.position, at.momentum()))
        if scattering:
            helices = _scatter(helices, np.where(hit, length, -np.inf).max(axis=1), detector, step, rng)
    return Crossings.join(found)


def _try_barrel(helices: Helices, detector: Detector, layer: BarrelLayer) -> tuple[IntArray, FloatArray]:
    """Modules (K, C) near the exit from one cylinder, and the length to each; NaN where missed."""
    ring_z, shift = detector.ring_positions()
    azimuth = azimuth_at_cylinder(helices, layer.radius)
    nearest = np.floor((np.nan_to_num(azimuth) + np.pi) / (2 * np.pi) * layer.n_slots).astype(np.int64)
    # The slot, its neighbours, each at both depths of the staggered rings: C = 6.
    slot = (nearest[:, None] + np.repeat([-1, 0, 1], 2)) % layer.n_slots
    parity = np.broadcast_to(np.tile([0, 1], 3), slot.shape)
    centre = slot_azimuths(layer.n_slots)[slot]
    radius = layer.radius + shift[parity]
    length = length_to_upright_plane(
        helices, centre + detector.layout.tilt, radius * np.cos(centre), radius * np.sin(centre)
    )
    length[np.isnan(azimuth)] = np.nan
    # Of the rings at this depth, every other one, the nearest in z is the only one that can be hit.
    z = np.nan_to_num(helices.position[:, 2, None] + helices.slope[:, None] * length)
    ring = 2 * np.rint((z - ring_z[parity]) / (2 * (ring_z[1] - ring_z[0]))).astype(np.int64) + parity
    ring = np.clip(ring, parity, len(ring_z) - 2 + parity)
    return _keep_inside(helices, layer.first_row + ring * layer.n_slots + slot, length, detector)


def _try_disc(helices: Helices, detector: Detector, index: int) -> tuple[IntArray, FloatArray]:
    """Modules (K, C) that a helix may cross on disc `index` of its endcap, and the path length to each."""
    forward = helices.slope > 0
    sides = [_try_rings(helices, detector, side[index]) for side in detector.discs]
    return (
        np.where(forward[:, None], sides[1][0], sides[0][0]),
        np.where(forward[:, None], sides[1][1], sides[0][1]),
    )


def _try_rings(
    helices: Helices, detector: Detector, rings: tuple[DiscRing, ...]
) -> tuple[IntArray, FloatArray]:
    module = np.empty((len(helices.phi), 2 * len(rings)), dtype=np.int64)
    z = np.empty(module.shape[1])
    for column in range(module.shape[1]):
        ring, parity = rings[column // 2], column % 2
        z[column] = detector.modules.centre[ring.first_row + parity, 2]
        s = np.nan_to_num(length_to_disc(helices, np.full((1, 1), z[column])))[:, 0]
        at = helices.walk(s).position
        azimuth = wrap_phi(np.arctan2(at[:, 1], at[:, 0]) - slot_azimuths(ring.n_slots)[parity])
        # Every other slot sits on this face of the disc.
        slot = 2 * np.rint(azimuth / (4 * np.pi / ring.n_slots)).astype(np.int64) + parity
        module[:, column] = ring.first_row + slot % ring.n_slots
    length = length_to_disc(helices, z[None, :])
    return _keep_inside(helices, module, length, detector)


def _keep_inside(
    helices: Helices, modules_at: IntArray, length: FloatArray, detector: Detector
) -> tuple[IntArray, FloatArray]:
    """Make NaN the lengths at which the helix passes outside the module."""
    row, column = np.nonzero(np.isfinite(length))
    rows = modules_at[row, column]
    u, v = detector.modules.to_local(rows, helices[row].walk(length[row, column]).position)
    outside = (np.abs(v) > detector.modules.half_v[rows]) | (np.abs(u) > detector.modules.half_u_at(rows, v))
    kept = length.copy()
    kept[row[outside], column[outside]] = np.nan
    return modules_at, kept


def _scatter(
    helices: Helices, length: FloatArray, detector: Detector, step: int, rng: np.random.Generator
) -> Helices:
    """Move particles that crossed the layer to their last crossing and scatter them (Highland's formula)."""
    angles = rng.normal(
        size=(2, len(length))
    )  # for all, so that one particle's draws depend on no other's hits
    crossed = np.flatnonzero(np.isfinite(length))
    moved = helices[crossed].walk(length[crossed])
    p = moved.pt * np.sqrt(1 + moved.slope**2)
    beta = p / np.hypot(p, _PION_MASS)
    # Cosine to the layer's normal: along the radius in the barrel, along the beam on discs.
    cosine = moved.pt / p if step < len(detector.barrel) else moved.pt * np.abs(moved.slope) / p
    thickness = detector.layout.radiation_length / np.maximum(cosine, 0.05)
    theta = 0.0136 / (beta * p) * np.sqrt(thickness) * (1 + 0.038 * np.log(thickness))
    bent = deflect(moved, angles[0, crossed] * theta, angles[1, crossed] * theta)
    return _replace(helices, crossed, bent)


def _replace(helices: Helices, rows: IntArray, new: Helices) -> Helices:
    columns = {name: getattr(helices, name).copy() for name in Helices.__dataclass_fields__}
    for name, column in columns.items():
        column[rows] = getattr(new, name)
    return Helices(**columns)
