"""One split of a dataset: a sequence of point clouds, read one by one or as batches of tensors."""

from __future__ import annotations

import operator
import os
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from hepdata.cloud import PointCloud
from hepdata.errors import InputError, nearest_name
from hepdata.html_table import html_table
from hepdata.inputs import InputChoice
from hepdata.progress import Progress
from hepdata.schema import Schema
from hepdata.storage.columns import PAIR_NAMES, cloud_from
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.location import DatasetLocation
from hepdata.storage.shard_reader import ShardReader, open_shard

if TYPE_CHECKING:
    import awkward as ak
    import pandas as pd

    from hepdata.loader.augment import Augmentation
    from hepdata.loader.interop_pyg import PygDataset
    from hepdata.loader.stream import Loader

# Open files per split: enough for a shuffle buffer, well below the usual limit of 1,024.
MAX_OPEN_SHARDS = 64


class Split:
    """The clouds of one split; picklable, and safe to share between threads and forked processes.

    Attributes:
        name: "train", "valid" or "test".
        manifest: Of the whole dataset.
        schema: Columns, features and coordinates.
    """

    def __init__(self, root: DatasetLocation, manifest: Manifest, name: str) -> None:
        self.root = root
        self.manifest = manifest
        self.name = name
        self.schema: Schema = manifest.as_schema()
        self.shards = manifest.splits[name]
        self._starts = np.cumsum([0, *(shard.rows for shard in self.shards)], dtype=np.int64)
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()
        self._process = os.getpid()
        self._lock = Lock()
        _splits.add(self)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, index: int) -> PointCloud: ...
    @overload
    def __getitem__(self, index: slice) -> list[PointCloud]: ...
    def __getitem__(self, index: int | slice) -> PointCloud | list[PointCloud]:
        if isinstance(index, slice):
            return [self.read(i) for i in range(*index.indices(len(self)))]
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"cloud {index} of {len(self)} in split {self.name!r}")
        return self.read(position % len(self))

    def __iter__(self) -> Iterator[PointCloud]:
        for index in range(len(self)):
            yield self.read(index)

    def read(self, index: int, columns: Sequence[str] | None = None, *, pairs: bool = True) -> PointCloud:
        """One cloud, or some of its columns.

        Args:
            index: 0 … len − 1.
            columns: Names of columns to read; all where not given.
            pairs: Whether to read the pair lists too, where the dataset has them.

        Raises:
            InputError: An unknown column, or a missing or damaged shard.
        """
        names = self.column_names if columns is None else self.check_columns(columns)
        if pairs and self.manifest.has_pairs:
            names = (*names, *PAIR_NAMES)
        reader, row = self._locate(index)
        arrays = reader.read(row, names)
        entry = reader.rows[row]
        return cloud_from(self.schema, int(entry["event_id"]), int(entry["sector"]), arrays)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of the stored columns, without pair lists."""
        return tuple(column.name for column in self.schema.columns)

    def check_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names, if all are columns of the dataset.

        Raises:
            InputError: One is not.
        """
        known = self.column_names
        for name in names:
            if name not in known:
                raise InputError(
                    f"{self.root.location}, column {name!r}",
                    found="no such column",
                    expected=f"a column of this {self.schema.task} dataset",
                    remedy=nearest_name(name, list(known)),
                )
        return tuple(names)

    def rows(self) -> NDArray[Any]:
        """event_id, sector and n_points of every cloud; reads the index of every shard, no clouds."""
        if not len(self):
            from hepdata.storage.shard_reader import ROW_DTYPE

            return np.empty(0, ROW_DTYPE)
        return np.concatenate([self._reader(i).rows for i in range(len(self.shards))])

    def loader(
        self,
        batch_size: int = 1,
        *,
        workers: int = 0,
        shuffle: bool = False,
        seed: int = 0,
        features: Sequence[InputChoice] | None = None,
        coords: Sequence[InputChoice] | None = None,
        select: Sequence[str] | None = None,
        scaled: bool = True,
        pairs: bool = True,
        rank: int = 0,
        world_size: int = 1,
        buffer: int = 1024,
        prefetch: int = 2,
        pin_memory: bool = False,
        batch_points: int | None = None,
        augment: Augmentation | None = None,
    ) -> Loader:
        """Batches of tensors; see `hepdata.loader.stream.Loader` for the arguments."""
        from hepdata.loader.collate import BatchLayout
        from hepdata.loader.epoch_plan import EpochPlan
        from hepdata.loader.stream import Loader

        layout = BatchLayout.choose(
            self, features=features, coords=coords, select=select, scaled=scaled, pairs=pairs
        )
        if augment is not None:
            inputs = {entry.column for entry in (*layout.features, *layout.coords)}
            augment.check(self.schema, inputs, self.root.location)
        plan = EpochPlan(
            shard_rows=tuple(shard.rows for shard in self.shards),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            buffer=buffer,
            rank=rank,
            world_size=world_size,
            batch_points=batch_points,
            cloud_points=() if batch_points is None else tuple(self.rows()["n_points"].tolist()),
        )
        return Loader(
            self, layout, plan, augment=augment, workers=workers, prefetch=prefetch, pin_memory=pin_memory
        )

    def to_awkward(self, columns: Sequence[str] | None = None, *, pairs: bool = False) -> ak.Array:
        """All clouds as one awkward array; see `hepdata.loader.interop_awkward`."""
        from hepdata.loader.interop_awkward import to_awkward

        return to_awkward(self, columns, pairs=pairs)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """All points as one table; see `hepdata.loader.interop_pandas`."""
        from hepdata.loader.interop_pandas import to_pandas

        return to_pandas(self, columns)

    def to_pyg(
        self, *, features: Sequence[InputChoice] | None = None, scaled: bool = True, pairs: bool = True
    ) -> PygDataset:
        """The clouds as torch_geometric `Data`, for its DataLoader; see `hepdata.loader.interop_pyg`."""
        from hepdata.loader.collate import BatchLayout
        from hepdata.loader.interop_pyg import PygDataset

        layout = BatchLayout.choose(
            self, features=features, coords=None, select=None, scaled=scaled, pairs=pairs
        )
        return PygDataset(self, layout)

    def to_padded_hdf5(
        self,
        path: str | os.PathLike[str],
        max_points: int | None = None,
        *,
        scaled: bool = True,
        progress: Progress | None = None,
    ) -> int:
        """Write a padded file as weaver and JetNet use it; see `hepdata.loader.interop_padded`."""
        from hepdata.loader.interop_padded import export_padded

        return export_padded(self, Path(path), max_points, scaled=scaled, progress=progress)

    def _locate(self, index: int) -> tuple[ShardReader, int]:
        shard = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._reader(shard), index - int(self._starts[shard])

    def _reader(self, shard: int) -> ShardReader:
        with self._lock:
            if os.getpid() != self._process:
                # HDF5 files that were opened before a fork cannot be used after it.
                self._readers, self._process = OrderedDict(), os.getpid()
            if shard not in self._readers:
                self._readers[shard] = open_shard(self.root, self.manifest, self.shards[shard])
                if len(self._readers) > MAX_OPEN_SHARDS:
                    # Not closed here: another thread may be reading. The last reference closes the file.
                    self._readers.popitem(last=False)
            self._readers.move_to_end(shard)
            return self._readers[shard]

    def __getstate__(self) -> tuple[DatasetLocation, Manifest, str]:
        return self.root, self.manifest, self.name

    def __setstate__(self, state: tuple[DatasetLocation, Manifest, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __repr__(self) -> str:
        statistics = self.manifest.statistics(self.name)
        pairs = statistics.n_positives + statistics.n_negatives
        parts = [f"{len(self):,} clouds", f"{statistics.n_points:,} points"]
        parts += [f"{pairs:,} pairs"] if pairs else []
        return f"Split({self.name!r} of {self.root.location!r}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [(column.name, column.dtype, column.unit, column.meaning) for column in self.schema.columns]
        return html_table(repr(self), ("column", "type", "unit", "meaning"), rows)


_splits: weakref.WeakSet[Split] = weakref.WeakSet()


def _renew_locks() -> None:
    """Replace locks after a fork: a lock held by another thread would never be released in the child."""
    for split in _splits:
        split._lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
