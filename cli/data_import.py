"""`hept-data import`: torch_geometric point clouds, as published, to a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import click

from hepdata.cloud import PointCloud
from hepdata.errors import HeptError
from hepdata.loader.pyg_clouds import choose_schema, make_cloud
from hepdata.loader.pyg_files import StoredCloud, list_clouds, read_tensors
from hepdata.pipeline.run import EventRef, SourceFile
from hepdata.progress import Progress
from hepdata.schema import Schema

from .build_options import BuildOptions, build_options, run_build


@dataclass(frozen=True)
class PygSource:
    """A folder of torch_geometric files, as the build takes it (see `hepdata.pipeline.event.EventSource`)."""

    clouds: tuple[StoredCloud, ...]
    schema: Schema
    trust: bool

    @classmethod
    def open(cls, folder: Path, trust: bool) -> PygSource:
        """List the clouds and look at the first, which says which columns there are."""
        clouds = tuple(list_clouds(folder, trust=trust))
        return cls(clouds, choose_schema(read_tensors(clouds[0], trust=trust)), trust)

    @cached_property
    def _by_event(self) -> dict[int, list[StoredCloud]]:
        grouped = groupby(self.clouds, key=lambda cloud: cloud.event_id)
        return {event_id: list(clouds) for event_id, clouds in grouped}

    def list_events(self) -> list[EventRef]:
        """Events in order."""
        return [EventRef(event_id, Path(own[0].path).name) for event_id, own in self._by_event.items()]

    def list_files(self, progress: Progress | None = None) -> list[SourceFile]:  # noqa: ARG002 (files are small)
        """Every file with its checksum."""
        files = []
        for path in sorted({Path(cloud.path) for cloud in self.clouds}):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            files.append(SourceFile(name=path.name, bytes=path.stat().st_size, sha256=digest))
        return files

    def describe(self) -> dict[str, object]:
        """What decides the clouds."""
        return {"imported": "torch_geometric", "pairs": "as in the files"}

    def read_clouds(
        self, events: Sequence[EventRef]
    ) -> Iterator[tuple[EventRef, list[PointCloud] | HeptError]]:
        """The sectors of each event."""
        for ref in events:
            try:
                yield ref, [self._read(cloud) for cloud in self._by_event[ref.event_id]]
            except HeptError as error:
                yield ref, error

    def _read(self, cloud: StoredCloud) -> PointCloud:
        tensors = read_tensors(cloud, trust=self.trust)
        where = Path(cloud.path).name
        return make_cloud(tensors, self.schema, event_id=cloud.event_id, sector=cloud.sector, where=where)


@click.command("import")
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("out")
@click.option(
    "--trust",
    is_flag=True,
    help="Read pickles that are more than tensors; such a file can run any program.",
)
@build_options
def command(folder: Path, out: str, trust: bool, options: BuildOptions) -> None:
    """Turn a FOLDER of torch_geometric .pt point clouds into a dataset in the new folder, or at the URL, OUT.

    Reads the files published for HEPT and those of gnn_tracking: x, pos, particle_id, pt, reconstructable,
    layer and point pairs; one cloud a file, or all in one.

    \b
    Example:
      hept-data import published imported
    """
    run_build(PygSource.open(folder, trust), out, options, "Imported dataset")
