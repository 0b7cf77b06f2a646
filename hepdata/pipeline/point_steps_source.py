"""A source whose clouds get more columns, fewer points, and then their pairs.

In: any event source that makes clouds without pairs; out: an `EventSource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.features.point_steps import PointSteps
from hepdata.pipeline.event_source import EventRef, EventSource
from hepdata.pipeline.tracking_source import PairChoice, add_pairs
from hepdata.progress import Progress
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import SourceFile


@dataclass(frozen=True)
class PointStepsSource:
    """Another source with definitions, selections, and pairs of the points that are left.

    Attributes:
        inner: Where clouds come from.
        steps: What is done to them.
        pairs: Which pairs are then made; None for a task without pairs.
    """

    inner: EventSource
    steps: PointSteps
    pairs: PairChoice | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the inner source, and the defined ones."""
        return self.steps.schema

    def list_events(self) -> list[EventRef]:
        """All events of the inner source."""
        return self.inner.list_events()

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:
        """All files of the inner source."""
        return self.inner.list_files(progress)

    def describe(self) -> dict[str, object]:
        """The configuration of the inner source, and what is done to its points."""
        pairs = {} if self.pairs is None else {"pairs": asdict(self.pairs)}
        return {**self.inner.describe(), **pairs, "points": self.steps.describe()}

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """The clouds of the inner source, changed; an event of which no point is left has none."""
        for ref, clouds in self.inner.read_clouds(events):
            if isinstance(clouds, HeptError):
                yield ref, clouds
                continue
            try:
                kept = [self.steps.apply(cloud) for cloud in clouds]
                yield ref, [self._pair(cloud) for cloud in kept if cloud is not None]
            except HeptError as error:
                yield ref, error

    def _pair(self, cloud: PointCloud) -> PointCloud:
        return cloud if self.pairs is None else add_pairs(cloud, self.pairs, self.schema)
