"""Masses of particles, from the tables of the Particle Data Group in the package `particle`."""

from __future__ import annotations

from functools import cache


@cache
def mass_of(code: int) -> float | None:
    """Mass in GeV of the particle with this PDG code; None for no code and for unknown masses."""
    # Imported here: it takes as long as all other imports of a command.
    from particle import InvalidParticle, Particle, ParticleNotFound

    try:
        mass = Particle.from_pdgid(code).mass
    except (InvalidParticle, ParticleNotFound):
        return None
    return None if mass is None else mass / 1000
