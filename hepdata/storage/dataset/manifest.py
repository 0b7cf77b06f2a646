"""The manifest `dataset.json`: everything about a dataset, without opening its data files.

A manifest carries a checksum of itself, and checksums of every shard. Readers accept every format version
up to their own; a newer one is refused with the advice to update.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hepdata.errors import InputError
from hepdata.schema import Column, ModelInput, Schema, Target
from hepdata.storage.dataset.manifest_checks import (
    MAX_MANIFEST_BYTES,
    Count,
    EventId,
    Sha256,
    ShardName,
    SplitName,
    find_problems,
    find_schema_problem,
)
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.old_schema import complete_schema
from hepdata.storage.dataset.statistics import Statistics, add_up
from hepdata.storage.location import DatasetLocation, open_location
from hepdata.symmetries import Symmetries

FORMAT_VERSION = 3
FileFormat = Literal["parquet", "hdf5"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SourceFile(_Record):
    """A raw file that the dataset was made of."""

    name: str
    bytes: Count
    sha256: str


class SkippedEvent(_Record):
    """An event that is not in the dataset, and why."""

    event_id: EventId
    source: str
    reason: str


class ShardRecord(_Record):
    """One file of clouds.

    Attributes:
        name: File name in the dataset's folder.
        rows: Clouds in it.
        bytes: File size.
        sha256: Checksum of the whole file.
        footer_bytes: Length of the file's index, at its end.
        footer_crc: CRC-32 of that index, checked whenever the shard is opened.
        has_pairs: Whether pair lists are stored.
        event_ids: Events in the shard, each once, in stored order.
        statistics: Counts over its clouds.
        rows_per_part: In an HDF5 file: clouds per shard of the same dataset in Parquet.
    """

    name: ShardName
    rows: Count
    bytes: Count
    sha256: Sha256
    footer_bytes: Count
    footer_crc: Count
    has_pairs: bool
    event_ids: list[EventId]
    statistics: Statistics
    rows_per_part: list[Count] = []


class Manifest(_Record):
    """Everything about a dataset.

    Attributes:
        format_version: Version of the layout on disk.
        task: Name of the task.
        file_format: "parquet" or "hdf5".
        columns: Every stored list column.
        features: Features of a model in order, unless its settings say otherwise.
        coordinates: Coordinates of a model, likewise.
        target: What a model is to learn; None in manifests of formats 1 and 2.
        symmetries: Which columns change when an event is turned or reflected; None where that is not known.
        has_pairs: Whether pair lists are stored.
        configuration: The full configuration of the build.
        software: Package versions that made the files.
        sources: Raw files.
        skipped: Events left out.
        totals: Counts over every split.
        splits: Shards of every split, in order.
    """

    format_version: int
    task: str
    file_format: FileFormat
    columns: list[Column]
    features: list[ModelInput]
    coordinates: list[ModelInput]
    target: Target | None = None
    symmetries: Symmetries | None = None
    has_pairs: bool
    configuration: dict[str, object]
    software: dict[str, str]
    sources: list[SourceFile]
    skipped: list[SkippedEvent]
    totals: dict[SplitName, Statistics]
    splits: dict[SplitName, list[ShardRecord]]

    def as_schema(self) -> Schema:
        """Columns, features and coordinates as the rest of the package knows them."""
        return complete_schema(
            Schema(
                task=self.task,
                columns=tuple(self.columns),
                features=tuple(self.features),
                coordinates=tuple(self.coordinates),
                target=self.target,
                symmetries=self.symmetries,
            )
        )

    def statistics(self, split: str | None = None) -> Statistics:
        """Counts over one split, or over all."""
        return add_up(list(self.totals.values())) if split is None else self.totals[split]

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the checksums of all shards: equal fingerprints mean equal bytes."""
        digest = hashlib.sha256()
        for split, shards in self.splits.items():
            for shard in shards:
                digest.update(f"{split} {shard.sha256}\n".encode())
        return digest.hexdigest()

    def as_text(self) -> str:
        """The content of `dataset.json`, checksum included."""
        return _as_text(self.model_dump(mode="json")).decode()

    def write(self, folder: Path) -> None:
        """Write `dataset.json` into `folder` atomically."""
        from hepdata.storage.atomic import write_atomically

        with write_atomically(folder / MANIFEST_NAME) as file:
            file.write(self.as_text().encode())

    @classmethod
    def read(cls, location: str | os.PathLike[str]) -> Manifest:
        """Read and check the manifest of a dataset.

        Raises:
            InputError: It is missing, damaged, of a newer format, or inconsistent.
        """
        root = open_location(location)
        return cls.parse(root.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES), root)

    @classmethod
    def parse(cls, text: bytes, root: DatasetLocation) -> Manifest:
        """Parse and check the text of the manifest of the dataset at `root`."""
        where = root.name_of(MANIFEST_NAME)
        try:
            content = json.loads(text)
            version = content["format_version"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(where, f"text that is no manifest ({error})") from error
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise InputError(
                where,
                found=f"format version {version}",
                expected=f"at most {FORMAT_VERSION}, the newest that this hept reads",
                remedy="update with: pip install --upgrade hept",
            )
        if text != _sign(text[len(_sign(b"")) - 1 : -1]):
            raise _damaged(where, "a content that does not match its own checksum")
        try:
            manifest = cls.model_validate(content)
        except ValidationError as error:
            problem = error.errors()[0]
            raise _damaged(where, f"an invalid manifest ({problem['loc']}: {problem['msg']})") from error
        found = next(find_problems(manifest), None) or _find_schema_problem(manifest)
        if found is not None:
            raise _damaged(where, found)
        return manifest


def make_manifest(
    *,
    schema: Schema,
    file_format: FileFormat,
    splits: Mapping[str, Sequence[ShardRecord]],
    configuration: Mapping[str, object],
    sources: Sequence[SourceFile] = (),
    skipped: Sequence[SkippedEvent] = (),
    totals: Mapping[str, Statistics] | None = None,
    format_version: int = FORMAT_VERSION,
) -> Manifest:
    """A manifest for shards that are written.

    Ranges of columns are stored for whole splits only, so that a manifest of many shards is quick to read.
    Records that were read from a manifest have no ranges: then `totals` must be given.
    """
    from hepdata.storage.dataset.software import list_software

    shards = [shard for name in splits for shard in splits[name] if shard.rows]
    return Manifest(
        format_version=format_version,
        task=schema.task,
        file_format=file_format,
        columns=list(schema.columns),
        features=list(schema.features),
        coordinates=list(schema.coordinates),
        symmetries=schema.symmetries,
        target=schema.target,
        has_pairs=any(shard.has_pairs for shard in shards),
        configuration=dict(configuration),
        software=list_software(),
        sources=list(sources),
        skipped=list(skipped),
        totals=dict(totals or count_splits(splits)),
        splits={name: [_lighten(record) for record in records] for name, records in splits.items()},
    )


def count_splits(splits: Mapping[str, Sequence[ShardRecord]]) -> dict[str, Statistics]:
    """Counts over every split, from records as the writers return them."""
    return {name: add_up([record.statistics for record in records]) for name, records in splits.items()}


def _lighten(record: ShardRecord) -> ShardRecord:
    return record.model_copy(update={"statistics": replace(record.statistics, columns={})})


def _as_text(content: Mapping[str, object]) -> bytes:
    return _sign(json.dumps(content, indent=1, ensure_ascii=False).encode()[1:])


def _sign(body: bytes) -> bytes:
    """The manifest's text, which begins with the checksum of the rest."""
    return b'{\n "checksum": "%s",%s\n' % (hashlib.sha256(body).hexdigest().encode(), body)


def _find_schema_problem(manifest: Manifest) -> str | None:
    try:
        return find_schema_problem(manifest.as_schema())
    except (ValueError, KeyError) as error:
        # An old manifest that was completed from the package's own schema, and does not fit it.
        return f"inputs that do not fit their columns ({error})"


def _damaged(where: str, found: str) -> InputError:
    return InputError(
        where,
        found=found,
        expected="a manifest as hept-data writes it",
        remedy="copy the file again from its source, or build the dataset again",
    )
