"""What a build made, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hepdata.pipeline.split_rule import SplitRule
from hepdata.storage.dataset.manifest import Manifest, SkippedEvent


@dataclass(frozen=True)
class BuildSummary:
    """What a build made.

    Attributes:
        out: The dataset's folder, or its URL.
        n_events: Events in the dataset.
        n_clouds: Clouds (events, or sectors of events).
        clouds_by_split: The same for every split of the rule, including empty ones.
        n_points: Points of all clouds.
        n_particles: Particles, counted in every cloud; None for a task without them.
        n_positives: Stored positive pairs.
        n_negatives: Stored negative pairs.
        n_bytes: Size of the data files.
        n_dropped: Points that an acceptance cut left out.
        skipped: Events left out, with their reasons.
        n_resumed: Shards that an earlier run had finished.
        was_finished: Whether there was nothing left to do.
        fingerprint: Checksum over the checksums of all data files.
    """

    out: Path | str
    n_events: int
    n_clouds: int
    clouds_by_split: dict[str, int]
    n_points: int
    n_particles: int | None
    n_positives: int
    n_negatives: int
    n_bytes: int
    n_dropped: int
    skipped: tuple[SkippedEvent, ...]
    n_resumed: int
    was_finished: bool
    fingerprint: str


def summarise(
    out: Path, manifest: Manifest, rule: SplitRule, *, n_resumed: int, was_finished: bool
) -> BuildSummary:
    """The summary of a finished dataset."""
    totals = manifest.statistics()
    n_dropped = manifest.configuration.get("n_dropped")
    shards = [shard for records in manifest.splits.values() for shard in records]
    return BuildSummary(
        out=out,
        n_events=sum(len(shard.event_ids) for shard in shards),
        n_clouds=totals.n_clouds,
        clouds_by_split={
            split: manifest.statistics(split).n_clouds if split in manifest.splits else 0
            for split in rule.wanted()
        },
        n_points=totals.n_points,
        n_particles=totals.counts.get("particles"),
        n_positives=totals.n_positives,
        n_negatives=totals.n_negatives,
        n_bytes=sum(shard.bytes for shard in shards),
        n_dropped=n_dropped if isinstance(n_dropped, int) else 0,
        skipped=tuple(manifest.skipped),
        n_resumed=n_resumed,
        was_finished=was_finished,
        fingerprint=manifest.fingerprint,
    )
