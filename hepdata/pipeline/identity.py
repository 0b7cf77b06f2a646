"""What decides the bytes of a dataset: the input's checksums, the configuration and the software."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hepdata.pipeline.event_source import EventSource
from hepdata.pipeline.split_rule import ShardPlan, SplitRule
from hepdata.progress import Progress
from hepdata.storage.dataset.manifest import FORMAT_VERSION, FileFormat, SourceFile
from hepdata.storage.dataset.software import list_software


@dataclass(frozen=True)
class Identity:
    """What distinguishes a build from others.

    Attributes:
        configuration: Of the manifest, with the fingerprint.
        sources: Raw files with their checksums.
        fingerprint: Checksum of everything that decides the bytes.
    """

    configuration: dict[str, object]
    sources: list[SourceFile]
    fingerprint: str


def identify(
    source: EventSource,
    rule: SplitRule,
    plans: Sequence[ShardPlan],
    file_format: FileFormat,
    progress: Progress | None = None,
) -> Identity:
    """Compute the checksums of the input, and describe the build."""
    sources = source.list_files(progress)
    configuration: dict[str, object] = {
        "task": source.schema.task,
        "source": source.describe(),
        "splits": rule.describe(),
        "shards": {plan.name: [event.event_id for event in plan.events] for plan in plans},
    }
    decisive = {
        **configuration,
        "schema": asdict(source.schema),
        "sources": [file.model_dump() for file in sources],
        "file_format": file_format,
        "format_version": FORMAT_VERSION,
        "software": list_software(),
    }
    fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    return Identity({**configuration, "fingerprint": fingerprint}, sources, fingerprint)
