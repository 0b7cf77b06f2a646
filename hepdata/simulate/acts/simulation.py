"""One realistic event: collisions, transport, interactions, clusters.

In: an event number, a number of hits and a seed. Out: `SimulatedEvent`. An event depends on nothing but these
three and the versions of Pythia and ACTS. Axes: n crossings, M modules.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hepdata.simulate.collisions import Particles
from hepdata.simulate.crossings import Crossings
from hepdata.simulate.detector import ModuleTable
from hepdata.simulate.recording import SimulatedEvent, record_event

from .geometry import BARRELS, PIXELS, ActsDetector, build_acts_detector
from .nuclear import interact
from .packages import import_acts, import_pythia
from .pythia import TRACK_PT, Born, Collider
from .transport import Fatras, Transported, pack_barcodes

MIN_HITS = 3000  # a hard collision alone leaves about 2,000
SIZE_SPREAD = 0.03  # relative, between events
HITS_PER_TRACK = 15.8  # measured, noise and secondaries included
INEFFICIENCY = 0.01
NOISE_PIXELS, NOISE_STRIPS = 0.055, 0.25  # shares of all hits, as in the challenge
# The challenge has no hits of tracks that graze a module; its pixel barrel ends at |η| = 3 for that reason.
MIN_COSINE = 0.1
# Tangent of the angle between drift and normal in the barrels, where the field is along the modules
DRIFT = -0.12


class ActsSimulation:
    """Simulates one event after the other. Copies in other processes prepare themselves."""

    min_hits = MIN_HITS

    @property
    def modules(self) -> ModuleTable:
        """The detector's modules.

        Raises:
            InputError: `pyacts` or `pythia8mc` is not installed.
        """
        import_acts()
        import_pythia()
        return _detector().modules

    def simulate_event(self, event_id: int, n_hits: int, seed: int) -> SimulatedEvent:
        """Simulate one event of about `n_hits` hits."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(event_id,)))
        total = n_hits * float(np.clip(rng.normal(1, SIZE_SPREAD), 0.9, 1.1))
        born = _collider().collide(round(total / HITS_PER_TRACK), rng)
        moved = _transport(born, rng)
        remains, secondaries = interact(moved, rng)
        parts = [(moved, remains & _is_seen(moved, rng))]
        if len(secondaries):
            again = _transport(secondaries, rng)
            parts.append((again, _is_seen(again, rng)))
        particles, crossings = _collect(born, secondaries, parts)
        noise = _draw_noise(self.modules, crossings, rng)
        modules = self.modules
        return record_event(
            event_id,
            particles,
            Crossings.join([crossings, noise]),
            modules,
            rng,
            drift=np.where(np.isin(modules.volume_id, BARRELS), DRIFT, 0.0),
            merge=True,
        )


@cache
def _detector() -> ActsDetector:
    return build_acts_detector()


@cache
def _collider() -> Collider:
    return Collider()


@cache
def _fatras() -> Fatras:
    return Fatras(_detector())


def _transport(born: Born, rng: np.random.Generator) -> Transported:
    return _fatras().transport(born[born.pt() >= TRACK_PT], int(rng.integers(1, 2**31)))


def _is_seen(moved: Transported, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(n,) whether a crossing leaves a hit."""
    normal = _detector().modules.rotation[moved.module][:, :, 2]
    cosine = np.abs((moved.momentum * normal).sum(axis=1)) / np.linalg.norm(moved.momentum, axis=1)
    seen: NDArray[np.bool_] = (cosine >= MIN_COSINE) & (rng.random(len(cosine)) >= INEFFICIENCY)
    return seen


def _collect(
    born: Born, secondaries: Born, parts: list[tuple[Transported, NDArray[np.bool_]]]
) -> tuple[Particles, Crossings]:
    """All charged particles of both passes, ordered by number, and their crossings."""
    everything = Born.join([born, secondaries, *(moved.particles for moved, _ in parts)])
    packed, first = np.unique(pack_barcodes(everything.barcode), return_index=True)
    everything = everything[first]
    columns = []
    for moved, seen in parts:
        owner = pack_barcodes(moved.particles.barcode)[moved.particle[seen]]
        columns.append(
            (owner, moved.module[seen], moved.step[seen], moved.position[seen], moved.momentum[seen])
        )
    owner, *rest = (np.concatenate(column) for column in zip(*columns, strict=True))
    # Fatras makes many slow secondaries that leave no hit.
    listed = (everything.charge != 0) & (np.isin(packed, owner) | (everything.barcode[:, 3] == 0))
    particles = Particles(
        packed[listed], everything.position[listed], everything.momentum[listed], everything.charge[listed]
    )
    return particles, Crossings(np.searchsorted(particles.particle_id, owner), *rest)


def _draw_noise(modules: ModuleTable, crossings: Crossings, rng: np.random.Generator) -> Crossings:
    """Crossings of no known particle: the modules and directions of random others, anywhere on the module.

    The challenge's noise has clusters of this kind too: its mean numbers of cells are those of other hits.
    """
    is_pixel = np.isin(modules.volume_id[crossings.module], PIXELS)
    chosen = []
    for rows, share in ((is_pixel, NOISE_PIXELS), (~is_pixel, NOISE_STRIPS)):
        candidates = np.flatnonzero(rows)
        chosen.append(rng.choice(candidates, rng.poisson(share / (1 - share) * len(candidates))))
    like = crossings[np.concatenate(chosen)]
    v = rng.uniform(-1, 1, len(like)) * modules.half_v[like.module]
    u = rng.uniform(-1, 1, len(like)) * modules.half_u_at(like.module, v)
    nobody = np.full(len(like), -1)
    return replace(like, particle=nobody, position=modules.to_global(like.module, u, v))
