"""What happens to the columns of a cloud when its event is turned about the beam, or reflected at z = 0.

Stored with a dataset, so that whoever turns its events needs no list of names. Others stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Symmetries:
    """The columns that change.

    Attributes:
        angles: Azimuths: an angle is added.
        vectors: Pairs of columns that are the x and the y component of one vector.
        reversed: Components along the beam: a reflection changes their sign.
        mirrored: Numbers of parts of the detector, with the number of the opposite part for each.
        not_turned: Columns that a rotation changes in a way that is not known.
        not_reflected: Columns that a reflection changes in a way that is not known.
    """

    angles: tuple[str, ...] = ()
    vectors: tuple[tuple[str, str], ...] = ()
    reversed: tuple[str, ...] = ()
    mirrored: tuple[tuple[str, tuple[int, ...]], ...] = ()
    not_turned: tuple[str, ...] = ()
    not_reflected: tuple[str, ...] = ()

    @property
    def turned(self) -> frozenset[str]:
        """Columns that a rotation changes."""
        return frozenset((*self.angles, *(name for pair in self.vectors for name in pair), *self.not_turned))

    @property
    def reflected(self) -> frozenset[str]:
        """Columns that a reflection changes."""
        return frozenset((*self.reversed, *(name for name, _ in self.mirrored), *self.not_reflected))

    def without(self, names: Collection[str]) -> Symmetries:
        """The same without some columns; a vector that loses a component has another that cannot turn."""
        alone = [
            name
            for pair in self.vectors
            if len(set(pair) & set(names)) == 1
            for name in pair
            if name not in names
        ]
        return Symmetries(
            angles=tuple(name for name in self.angles if name not in names),
            vectors=tuple(pair for pair in self.vectors if not set(pair) & set(names)),
            reversed=tuple(name for name in self.reversed if name not in names),
            mirrored=tuple(entry for entry in self.mirrored if entry[0] not in names),
            not_turned=(*(name for name in self.not_turned if name not in names), *alone),
            not_reflected=tuple(name for name in self.not_reflected if name not in names),
        )
