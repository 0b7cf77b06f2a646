"""A padded HDF5 file as weaver and JetNet use it: clouds by points by features, and a mask.

Layout for B clouds, P points at most and F features:
    particle_features   (B, P, F + 1) float32   the features, then the mask as a feature; zeros beyond
    mask                (B, P) bool
    event_features      (B, 3) int64            event_id, sector, n_points
    COLUMN              (B, P)                  every stored column by name, zeros beyond
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.atomic import write_atomically
from hepdata.storage.hdf5.new_file import create_hdf5

if TYPE_CHECKING:
    from hepdata.cloud import PointCloud
    from hepdata.loader.split import Split


def export_padded(
    split: Split,
    path: Path,
    max_points: int | None = None,
    *,
    scaled: bool = True,
    progress: Progress | None = None,
) -> int:
    """Write a split to one padded file, cloud by cloud; see `hepdata.export_padded`.

    Raises:
        InputError: `path` exists, or `max_points` is less than 1.
    """
    if path.exists():
        raise InputError(path, found="an existing file", expected="a new one", remedy="choose another name")
    largest = split.manifest.statistics(split.name).n_points_max or 1
    width = largest if max_points is None else max_points
    if width < 1:
        raise InputError("max_points", found=str(width), expected="at least 1", remedy="change the argument")
    n_lost = 0
    listener = progress or Silent()
    with (
        counting(listener, "exporting", len(split), "cloud"),
        write_atomically(path) as handle,
        create_hdf5(handle) as file,
    ):
        _create(file, split, width)
        for row, cloud in enumerate(split.read(i, pairs=False) for i in range(len(split))):
            kept = _choose_points(cloud, width)
            n_lost += cloud.n_points - len(kept)
            file["event_features"][row] = (cloud.event_id, cloud.sector, cloud.n_points)
            file["mask"][row, : len(kept)] = True
            matrix = np.zeros((width, len(split.schema.features) + 1), np.float32)
            for j, entry in enumerate(split.schema.features):
                values = cloud.columns[entry.column][kept]
                matrix[: len(kept), j] = values * np.float64(entry.scale if scaled else 1.0)
            matrix[: len(kept), -1] = 1.0
            file["particle_features"][row] = matrix
            for name in split.column_names:
                file[name][row, : len(kept)] = cloud.columns[name][kept]
            listener.advance()
    return n_lost


def _create(file: h5py.File, split: Split, width: int) -> None:
    n, names = len(split), [entry.column for entry in split.schema.features]

    def create(name: str, shape: tuple[int, ...], dtype: str) -> Any:
        packing = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if n else {}
        chunks = (1, *shape[1:]) if n else None
        return file.create_dataset(name, (n, *shape[1:]), dtype, chunks=chunks, **packing)

    create("particle_features", (n, width, len(names) + 1), "float32").attrs["names"] = [*names, "mask"]
    create("mask", (n, width), "bool")
    create("event_features", (n, 3), "int64").attrs["names"] = ["event_id", "sector", "n_points"]
    for column in split.schema.columns:
        dataset = create(column.name, (n, width), column.dtype)
        dataset.attrs["unit"], dataset.attrs["meaning"] = column.unit, column.meaning


def _choose_points(cloud: PointCloud, width: int) -> NDArray[np.int64]:
    if cloud.n_points <= width:
        return np.arange(cloud.n_points)
    if "pt" not in cloud.columns:
        return np.arange(width)
    return np.sort(np.argsort(-cloud.pt, kind="stable")[:width])
