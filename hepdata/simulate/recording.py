"""What a detector records of the particles that cross it: the four tables of a TrackML event.

In: particles, where they cross modules, and the modules. Out: `SimulatedEvent`, whose tables have the
challenge's columns. Lengths in mm, momenta in GeV. Axes: n hits, N cells, K particles, M modules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .clusters import Cells, Grid, find_centres, ionise, make_grid, make_noise
from .collisions import Particles
from .crossings import Crossings
from .detector import FloatArray, IntArray, ModuleTable
from .merging import merge_clusters

Table = dict[str, NDArray[np.int64] | NDArray[np.float64]]

MIN_WEIGHTED_HITS = 4  # shorter tracks carry no weight in the challenge's score

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


def record_event(
    event_id: int,
    particles: Particles,
    crossings: Crossings,
    modules: ModuleTable,
    rng: np.random.Generator,
    *,
    n_noise: int = 0,
    drift: FloatArray | None = None,
    merge: bool = False,
) -> SimulatedEvent:
    """Measure every crossing, add noise, and put both in order.

    Args:
        event_id: Number of the event.
        particles: Everything that is listed as a particle.
        crossings: Where they cross modules; those of particle −1, at the end, belong to no particle: noise.
        modules: The detector.
        rng: Draws charges and noise.
        n_noise: Further noise: small clusters, uniform over the silicon.
        drift: (M,) tangent of the angle by which the field turns the charge along u; none unless given.
        merge: Whether clusters that touch are read out as one. The hit then belongs to the particle that left
            most of the charge.
    """
    position, cells, crossings = _measure(crossings, modules, rng, drift, merge)
    noise_module, noise_position, noise_cells = _draw_noise(n_noise, modules, rng)
    module = np.concatenate([crossings.module, noise_module])
    measured = np.concatenate([position, noise_position])
    n_clusters, is_noise = len(crossings), crossings.particle < 0
    noise_position = np.concatenate([crossings.position[is_noise], noise_position])
    crossings = crossings[np.flatnonzero(~is_noise)]
    # Within a module, hits of all origins are mixed.
    order = np.lexsort((rng.random(len(module)), module))
    hit_id = np.empty(len(order), dtype=np.int64)
    hit_id[order] = np.arange(1, len(order) + 1)
    return SimulatedEvent(
        event_id,
        hits=_hits_table(module[order], measured[order], modules),
        cells=_cells_table(hit_id, cells, noise_cells, n_clusters),
        particles=_particles_table(particles, crossings),
        truth=_truth_table(particles, crossings, noise_position, order, rng),
    )


def _measure(
    crossings: Crossings,
    modules: ModuleTable,
    rng: np.random.Generator,
    drift: FloatArray | None,
    merge: bool,
) -> tuple[FloatArray, Cells, Crossings]:
    """Measured positions (n, 3) and cells of the hits of particles, and the crossings they stand for."""
    grid = make_grid(modules, crossings.module)
    local = np.einsum("ni,nij->nj", crossings.momentum, modules.rotation[crossings.module])
    along_normal = np.where(np.abs(local[:, 2]) > 1e-9, local[:, 2], 1e-9)
    middle = np.stack(modules.to_local(crossings.module, crossings.position), axis=1)
    tangent = local[:, :2] / along_normal[:, None]
    if drift is not None:
        tangent[:, 0] += drift[crossings.module]
    cells = ionise(grid, middle, tangent, modules.depth[crossings.module], rng)
    if merge:
        cells, kept = merge_clusters(cells, crossings.module)
        crossings, grid = crossings[kept], make_grid(modules, crossings.module[kept])
    cells = _read_out(cells, modules, crossings.module)
    return _place(cells, grid, modules, crossings.module), cells, crossings


def _draw_noise(n: int, modules: ModuleTable, rng: np.random.Generator) -> tuple[IntArray, FloatArray, Cells]:
    """Modules, positions (n, 3) and cells of noise."""
    area = (modules.min_half_u + modules.max_half_u) * modules.half_v
    module = rng.choice(len(modules), n, p=area / area.sum())
    v = rng.uniform(-1, 1, n) * (modules.half_v[module] - 0.5)
    u = rng.uniform(-1, 1, n) * (modules.half_u_at(module, v) - 0.5)
    grid = make_grid(modules, module)
    cells = _read_out(make_noise(grid, np.stack([u, v], axis=1), rng), modules, module)
    return module, _place(cells, grid, modules, module), cells


def _read_out(cells: Cells, modules: ModuleTable, module: IntArray) -> Cells:
    return replace(cells, value=np.where(modules.is_digital[module[cells.cluster]], 1.0, cells.value))


def _place(cells: Cells, grid: Grid, modules: ModuleTable, module: IntArray) -> FloatArray:
    centre = find_centres(cells, grid)
    return modules.to_global(module, centre[:, 0], centre[:, 1])


def _hits_table(module: IntArray, position: FloatArray, table: ModuleTable) -> Table:
    return {
        "hit_id": np.arange(1, len(module) + 1),
        "x": position[:, 0],
        "y": position[:, 1],
        "z": position[:, 2],
        "volume_id": table.volume_id[module],
        "layer_id": table.layer_id[module],
        "module_id": table.module_id[module],
    }


def _cells_table(hit_id: IntArray, cells: Cells, noise: Cells, n_clusters: int) -> Table:
    of_hit = hit_id[np.concatenate([cells.cluster, noise.cluster + n_clusters])]
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
