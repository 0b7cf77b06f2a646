"""Which events go to training, validation and test, and into which shard.

In: the events of a source in order; out: shards, each a run of consecutive events of one split. The result is
independent of the number of workers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hepdata.errors import InputError
from hepdata.pipeline.event_source import EventRef
from hepdata.storage.dataset.names import SPLITS, name_shard

# Enough shards to keep workers busy and to lose little when a build is stopped, but few files.
SHARDS_PER_SPLIT = 16
MAX_EVENTS_PER_SHARD = 32


@dataclass(frozen=True)
class SplitRule:
    """How whole events are divided: by shares in event-id order, or by ranges of event ids.

    Attributes:
        shares: Relative sizes of train, valid and test.
        ranges: (split, first id, last id), inclusive; if given, they replace the shares, and events outside
            of all ranges are left out.
    """

    shares: tuple[float, float, float] = (80.0, 10.0, 10.0)
    ranges: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        if self.ranges:
            return ",".join(f"{split}={first}-{last}" for split, first, last in self.ranges)
        return "/".join(f"{share:g}" for share in self.shares)

    @classmethod
    def parse(cls, text: str) -> SplitRule:
        """A rule from the command line: "80/10/10" or "train=1000-1799,valid=1800-1899,test=1900".

        Raises:
            InputError: It is neither.
        """
        shares = re.fullmatch(r"([\d.]+)/([\d.]+)/([\d.]+)", text)
        if shares is not None:
            try:
                numbers = (float(shares[1]), float(shares[2]), float(shares[3]))
            except ValueError:
                raise _bad_rule(text) from None
            if sum(numbers) > 0:
                return cls(shares=numbers)
        ranges = []
        for entry in text.split(","):
            match = re.fullmatch(rf"({'|'.join(SPLITS)})=(\d+)(?:-(\d+))?", entry.strip())
            if match is None:
                raise _bad_rule(text)
            ranges.append((match[1], int(match[2]), int(match[3] or match[2])))
        return cls(ranges=tuple(ranges))

    def divide(self, events: Sequence[EventRef]) -> dict[str, list[EventRef]]:
        """The events of every split that has any.

        With shares, every split whose share is not zero gets at least one event as soon as there are three.

        Raises:
            InputError: No event falls into any range, or one falls into two splits.
        """
        divided = self._divide_by_range(events) if self.ranges else self._divide_by_share(events)
        divided = {split: chosen for split, chosen in divided.items() if chosen}
        if not divided:
            raise InputError(
                "`split`",
                found=f"ranges that hold none of the events {events[0].event_id} to {events[-1].event_id}",
                expected="at least one event in a split",
                remedy="give ranges of the event ids in the file names",
            )
        return divided

    def wanted(self) -> list[str]:
        """Splits that the rule names, in order."""
        if self.ranges:
            named = {split for split, _, _ in self.ranges}
            return [split for split in SPLITS if split in named]
        return [split for split, share in zip(SPLITS, self.shares, strict=True) if share > 0]

    def describe(self) -> dict[str, object]:
        """The rule as JSON values."""
        if self.ranges:
            return {"ranges": [list(entry) for entry in self.ranges]}
        return {"shares": list(self.shares)}

    def _divide_by_share(self, events: Sequence[EventRef]) -> dict[str, list[EventRef]]:
        n_events, total = len(events), sum(self.shares)
        sizes = [int(n_events * share / total + 1e-9) for share in self.shares]
        for split in (2, 1):
            if self.shares[split] > 0 and n_events >= 3:
                sizes[split] = max(1, sizes[split])
        # The remainder of rounding goes to the largest share, usually the training split.
        largest = self.shares.index(max(self.shares))
        sizes[largest] = n_events - sum(size for split, size in enumerate(sizes) if split != largest)
        ends = [sizes[0], sizes[0] + sizes[1], n_events]
        starts = [0, *ends[:-1]]
        return {
            split: list(events[start:end]) for split, start, end in zip(SPLITS, starts, ends, strict=True)
        }

    def _divide_by_range(self, events: Sequence[EventRef]) -> dict[str, list[EventRef]]:
        divided: dict[str, list[EventRef]] = {split: [] for split in SPLITS}
        for event in events:
            homes = {split for split, first, last in self.ranges if first <= event.event_id <= last}
            if len(homes) > 1:
                raise InputError(
                    "`split`",
                    found=f"event {event.event_id} in {' and '.join(sorted(homes))}",
                    expected="every event in one split",
                    remedy="give ranges that do not overlap",
                )
            for split in homes:
                divided[split].append(event)
        return divided


@dataclass(frozen=True)
class ShardPlan:
    """One file to be written: the unit of work and of resuming."""

    split: str
    name: str
    events: tuple[EventRef, ...]


def plan_shards(divided: dict[str, list[EventRef]], events_per_shard: int | None) -> list[ShardPlan]:
    """Cut every split into shards of consecutive events.

    Args:
        divided: Events of every split.
        events_per_shard: Fixed size; None chooses it from the number of events.
    """
    plans = []
    for split, events in divided.items():
        size = events_per_shard or min(MAX_EVENTS_PER_SHARD, -(-len(events) // SHARDS_PER_SPLIT))
        groups = [tuple(events[first : first + size]) for first in range(0, len(events), size)]
        plans += [
            ShardPlan(split, name_shard(split, number, len(groups)), group)
            for number, group in enumerate(groups)
        ]
    return plans


def _bad_rule(text: str) -> InputError:
    return InputError(
        "`split`",
        found=repr(text),
        expected="shares like 80/10/10, or ranges of event ids like train=0-799,valid=800-899,test=900-999",
        remedy="write the rule in one of the two forms",
    )
