"""A dataset, opened by location; its splits are found by name.

Opening reads the manifest and nothing else; torch is imported when batches are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hepdata.errors import InputError, nearest_name
from hepdata.loader.split import Split
from hepdata.schema import Schema
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.location import DatasetLocation, open_location

if TYPE_CHECKING:
    from hepdata.loader.info import DatasetInfo


class Dataset:
    """A dataset of point clouds: `dataset["train"][0]` is a cloud.

    Attributes:
        root: Its location.
        manifest: Its manifest.
        schema: Its columns, features and coordinates.
    """

    def __init__(self, root: DatasetLocation, manifest: Manifest) -> None:
        self.root = root
        self.manifest = manifest
        self.schema: Schema = manifest.as_schema()
        self._splits = {name: Split(root, manifest, name) for name in manifest.splits}

    @property
    def task(self) -> str:
        """Name of the task: "tracking", "pileup", or another that a dataset brings."""
        return self.manifest.task

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the checksums of all shards: equal fingerprints mean equal bytes."""
        return self.manifest.fingerprint

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, in stored order."""
        return tuple(self._splits)

    def __getitem__(self, name: str) -> Split:
        try:
            return self._splits[name]
        except KeyError:
            raise InputError(
                f"{self.root.location}, split {name!r}",
                found="no such split",
                expected=f"one of {', '.join(self._splits)}",
                remedy=nearest_name(str(name), list(self._splits)),
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        """Clouds in all splits."""
        return sum(len(split) for split in self._splits.values())

    def info(self) -> DatasetInfo:
        """A description that is shown as tables in a terminal and in a notebook."""
        from hepdata.loader.info import describe_dataset

        return describe_dataset(self.root.location, self.manifest)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(split):,}" for name, split in self._splits.items())
        return f"Dataset({self.root.location!r}, {self.task}, {self.manifest.file_format}, clouds: {sizes})"

    def _repr_html_(self) -> str:
        return self.info()._repr_html_()


# The type of arguments that name a dataset: its location, or the opened dataset.
DatasetLike = str | os.PathLike[str] | Dataset


def open_dataset(location: DatasetLike) -> Dataset:
    """Open a dataset made by `hept-data`.

    Args:
        location: Folder or fsspec URL of a dataset in Parquet or HDF5. An opened dataset is returned as it
            is.

    Raises:
        InputError: There is no dataset, its manifest is damaged, or of a newer format.
    """
    if isinstance(location, Dataset):
        return location
    root = open_location(location)
    return Dataset(root, Manifest.read(location))
