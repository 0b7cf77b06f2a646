"""One simulated TrackML event: hits, cells, particles and truth as arrays.

In: an event number, a target size, a seed and a detector. Out: `SimulatedEvent`, whose tables have the
challenge's columns. An event depends on nothing but these four, so events can be made in any
order. Lengths in mm, momenta in GeV. Axes: n hits, N cells, K particles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError

from .clusters import Cells, find_centres, ionise, make_grid, make_noise
from .collisions import Particles, collide
from .crossings import Crossings, to_local, trace
from .detector import Detector, FloatArray, IntArray

Table = dict[str, NDArray[np.int64] | NDArray[np.float64]]

MIN_HITS = 100
NOISE_SHARE = 0.15
INEFFICIENCY = 0.02
SIZE_SPREAD = 0.04  # relative, between events
MIN_WEIGHTED_HITS = 4  # shorter tracks carry no weight in the challenge's score

_HITS_PER_PARTICLE = 6.0  # about; only decides how many particles are drawn at once
_NOISE_MOMENTUM = 1e6  # the challenge marks noise by momenta no particle has


@dataclass(frozen=True)
class SimulatedEvent:
    """The four tables of one event, column name to values, in the challenge's order of columns.

    Attributes:
        event_id: Its number.
        hits: hit_id, x, y, z, volume_id, layer_id, module_id; ordered by module.
        cells: hit_id, ch0, ch1, value.
        particles: particle_id, vx, vy, vz, px, py, pz, q, nhits; also those without hits.
        truth: hit_id, particle_id (0 = noise), tx, ty, tz, tpx, tpy, tpz, weight.
    """

    event_id: int
    hits: Table
    cells: Table
    particles: Table
    truth: Table

    @property
    def n_hits(self) -> int:
        """Number of hits."""
        return len(self.hits["hit_id"])


def simulate_event(event_id: int, n_hits: int, seed: int, detector: Detector) -> SimulatedEvent:
    """Simulate one event of about `n_hits` hits.

    Raises:
        InputError: If a number is out of range.
    """
    _check("event_id", event_id, 0)
    _check("n_hits", n_hits, MIN_HITS)
    _check("seed", seed, 0)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(event_id,)))
    total = round(n_hits * float(np.clip(rng.normal(1, SIZE_SPREAD), 0.9, 1.1)))
    n_noise = round(NOISE_SHARE * total)
    particles, crossings = _draw_tracks(total - n_noise, detector, rng)
    position, cells = _measure(crossings, detector, rng)
    noise_module, noise_position, noise_cells = _draw_noise(n_noise, detector, rng)
    module = np.concatenate([crossings.module, noise_module])
    measured = np.concatenate([position, noise_position])
    # Within a module, hits of all origins are mixed.
    order = np.lexsort((rng.random(len(module)), module))
    hit_id = np.empty(len(order), dtype=np.int64)
    hit_id[order] = np.arange(1, len(order) + 1)
    return SimulatedEvent(
        event_id,
        hits=_hits_table(module[order], measured[order], detector),
        cells=_cells_table(hit_id, cells, noise_cells, len(crossings)),
        particles=_particles_table(particles, crossings),
        truth=_truth_table(particles, crossings, noise_position, order, rng),
    )


def _check(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(
            name,
            found=str(value),
            expected=f"a whole number of at least {least}",
            remedy="choose a larger one",
        )


def _draw_tracks(n_hits: int, detector: Detector, rng: np.random.Generator) -> tuple[Particles, Crossings]:
    """Particles, in order, until their hits fill the event, and those hits."""
    n_particles = int(n_hits / _HITS_PER_PARTICLE * 1.3) + 20
    while True:
        particles = collide(n_particles, rng)
        crossings = trace(particles, detector, rng)
        crossings = crossings[np.flatnonzero(rng.random(len(crossings)) >= INEFFICIENCY)]
        reached = np.cumsum(np.bincount(crossings.particle, minlength=len(particles)))
        if reached[-1] >= n_hits:
            break
        n_particles *= 2
    n_kept = int(np.searchsorted(reached, n_hits)) + 1
    return particles[:n_kept], crossings[np.flatnonzero(crossings.particle < n_kept)]


def _measure(crossings: Crossings, detector: Detector, rng: np.random.Generator) -> tuple[FloatArray, Cells]:
    """Measured positions (n, 3) and cells of the hits of particles."""
    grid = make_grid(detector, crossings.module)
    local = np.einsum("ni,nij->nj", crossings.momentum, detector.modules.rotation[crossings.module])
    along_normal = np.where(np.abs(local[:, 2]) > 1e-9, local[:, 2], 1e-9)
    middle = np.stack(to_local(detector, crossings.module, crossings.position), axis=1)
    tangent = local[:, :2] / along_normal[:, None]
    cells = ionise(grid, middle, tangent, detector.modules.depth[crossings.module], rng)
    centre = find_centres(cells, grid)
    return detector.modules.to_global(crossings.module, centre[:, 0], centre[:, 1]), cells


def _draw_noise(n: int, detector: Detector, rng: np.random.Generator) -> tuple[IntArray, FloatArray, Cells]:
    """Modules, positions (n, 3) and cells of noise: uniform over the silicon."""
    table = detector.modules
    area = (table.min_half_u + table.max_half_u) * table.half_v
    module = rng.choice(len(table), n, p=area / area.sum())
    v = rng.uniform(-1, 1, n) * (table.half_v[module] - 0.5)
    u = rng.uniform(-1, 1, n) * (table.half_u_at(module, v) - 0.5)
    grid = make_grid(detector, module)
    cells = make_noise(grid, np.stack([u, v], axis=1), rng)
    centre = find_centres(cells, grid)
    return module, table.to_global(module, centre[:, 0], centre[:, 1]), cells


def _hits_table(module: IntArray, position: FloatArray, detector: Detector) -> Table:
    table = detector.modules
    return {
        "hit_id": np.arange(1, len(module) + 1),
        "x": position[:, 0],
        "y": position[:, 1],
        "z": position[:, 2],
        "volume_id": table.volume_id[module],
        "layer_id": table.layer_id[module],
        "module_id": table.module_id[module],
    }


def _cells_table(hit_id: IntArray, cells: Cells, noise: Cells, n_crossings: int) -> Table:
    of_hit = hit_id[np.concatenate([cells.cluster, noise.cluster + n_crossings])]
    order = np.argsort(of_hit, kind="stable")
    return {
        "hit_id": of_hit[order],
        "ch0": np.concatenate([cells.ch0, noise.ch0])[order],
        "ch1": np.concatenate([cells.ch1, noise.ch1])[order],
        "value": np.concatenate([cells.value, noise.value])[order],
    }


def _particles_table(particles: Particles, crossings: Crossings) -> Table:
    columns: Table = {"particle_id": particles.particle_id}
    columns |= {f"v{axis}": particles.position[:, i] for i, axis in enumerate("xyz")}
    columns |= {f"p{axis}": particles.momentum[:, i] for i, axis in enumerate("xyz")}
    columns["q"] = particles.charge
    columns["nhits"] = np.bincount(crossings.particle, minlength=len(particles))
    return columns


def _truth_table(
    particles: Particles,
    crossings: Crossings,
    noise_position: FloatArray,
    order: IntArray,
    rng: np.random.Generator,
) -> Table:
    n_noise = len(noise_position)
    direction = rng.normal(size=(n_noise, 3))
    direction *= _NOISE_MOMENTUM / np.linalg.norm(direction, axis=1, keepdims=True)
    position = np.concatenate([crossings.position, noise_position])[order]
    momentum = np.concatenate([crossings.momentum, direction])[order]
    owner = np.concatenate([particles.particle_id[crossings.particle], np.zeros(n_noise, dtype=np.int64)])
    columns: Table = {"hit_id": np.arange(1, len(order) + 1), "particle_id": owner[order]}
    columns |= {f"t{axis}": position[:, i] for i, axis in enumerate("xyz")}
    columns |= {f"tp{axis}": momentum[:, i] for i, axis in enumerate("xyz")}
    columns["weight"] = np.concatenate([_weigh_hits(particles, crossings), np.zeros(n_noise)])[order]
    return columns


def _weigh_hits(particles: Particles, crossings: Crossings) -> FloatArray:
    """Weights in the manner of the challenge: stiff tracks and the ends of tracks count more; sum 1."""
    n_hits = np.bincount(crossings.particle, minlength=len(particles))
    order = np.lexsort((crossings.step, crossings.particle))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - (np.cumsum(n_hits) - n_hits)[crossings.particle[order]]
    from_end = np.minimum(rank, n_hits[crossings.particle] - 1 - rank)
    pt = np.hypot(particles.momentum[:, 0], particles.momentum[:, 1])[crossings.particle]
    weight = (0.2 + 0.8 * np.clip((pt - 0.5) / 2.5, 0, 1)) / (1.0 + from_end)
    long_enough = n_hits[crossings.particle] >= MIN_WEIGHTED_HITS
    if long_enough.any():
        weight = np.where(long_enough, weight, 0.0)
    weights: FloatArray = weight / weight.sum()
    return weights
