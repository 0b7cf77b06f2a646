"""The classes of particles in pileup events."""

from __future__ import annotations

# Name, and PDG code of a neutral species. Datasets store positions in this list: a new line renumbers those
# below it. "charged" stays the first, "other neutral" the last.
PARTICLE_CLASSES: tuple[tuple[str, int | None], ...] = (
    ("charged", None),
    ("photon", 22),
    ("K0L", 130),
    ("K0S", 310),
    ("neutron", 2112),
    ("Lambda", 3122),
    ("Xi0", 3322),
    ("other neutral", None),
)
