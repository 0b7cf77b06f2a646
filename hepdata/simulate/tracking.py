"""One event of the toy detector.

In: an event number, a target size, a seed and a detector. Out: `SimulatedEvent`. An event depends on nothing
but these four, so events can be made in any order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hepdata.errors import InputError

from .collisions import Particles, collide
from .crossings import Crossings, trace
from .detector import Detector, ModuleTable, build_detector
from .recording import SimulatedEvent, record_event

MIN_HITS = 100
NOISE_SHARE = 0.15
INEFFICIENCY = 0.02
SIZE_SPREAD = 0.04  # relative, between events

_HITS_PER_PARTICLE = 6.0  # about; only decides how many particles are drawn at once


class Simulation(Protocol):
    """A way to make events."""

    min_hits: int

    @property
    def modules(self) -> ModuleTable:
        """The detector's modules."""

    def simulate_event(self, event_id: int, n_hits: int, seed: int) -> SimulatedEvent:
        """An event of about `n_hits` hits; it depends on these three numbers only."""


class ToySimulation:
    """Events of the toy detector."""

    min_hits = MIN_HITS

    def __init__(self) -> None:
        self._detector = build_detector()

    @property
    def modules(self) -> ModuleTable:
        """The detector's modules."""
        return self._detector.modules

    def simulate_event(self, event_id: int, n_hits: int, seed: int) -> SimulatedEvent:
        """An event of about `n_hits` hits."""
        return simulate_event(event_id, n_hits, seed, self._detector)


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
    return record_event(event_id, particles, crossings, detector.modules, rng, n_noise=n_noise, merge=True)


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
