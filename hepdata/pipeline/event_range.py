"""Which events of a source are taken: what a user writes enters, the chosen numbers leave."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hepdata.errors import InputError


@dataclass(frozen=True)
class EventRange:
    """Events by their numbers, lowest first.

    Attributes:
        first: Lowest number; None for an open end.
        last: Highest number, inclusive; None likewise.
        most: At most this many.
    """

    first: int | None = None
    last: int | None = None
    most: int | None = None

    @classmethod
    def parse(cls, events: str | range | None, max_events: int | None) -> EventRange:
        """The range of the parameters `events` and `max_events` of every build.

        Raises:
            InputError: Not a range of event ids, or less than one event.
        """
        if max_events is not None and max_events < 1:
            raise InputError(
                "`max_events`",
                found=str(max_events),
                expected="at least 1",
                remedy="leave it out for all events",
            )
        if events is None:
            return cls(most=max_events)
        if isinstance(events, range) and len(events):
            return cls(min(events), max(events), max_events)
        match = re.fullmatch(r"(\d+)(?:(-)(\d*))?", str(events))
        if match is None or (match[3] and int(match[3]) < int(match[1])):
            raise InputError(
                "`events`",
                found=repr(events),
                expected="FIRST-LAST like 1000-1099, FIRST- for all from there, or one id",
                remedy="give a range of event ids",
            )
        first = int(match[1])
        last = int(match[3]) if match[3] else None
        return cls(first, last if match[2] else first, max_events)

    def choose(self, numbers: ArrayLike, where: object) -> NDArray[np.int64]:
        """The chosen ones of the numbers of a source, ascending.

        Raises:
            InputError: None is left.
        """
        known = np.unique(np.asarray(numbers, dtype=np.int64))
        low = 0 if self.first is None else self.first
        high = 2**63 - 1 if self.last is None else self.last
        chosen = known[(known >= low) & (known <= high)][: self.most]
        if not len(chosen):
            end = "on" if self.last is None else f"to {self.last}"
            raise InputError(
                where,
                found=f"no event with an id from {self.first} {end}" if len(known) else "no event",
                expected=f"one of the {len(known)} events from {known[0]} to {known[-1]}"
                if len(known)
                else "at least one",
                remedy="give another range as `events`" if len(known) else "check the files",
            )
        return chosen


ALL_EVENTS = EventRange()
