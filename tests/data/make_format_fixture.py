"""Makes the tiny datasets of the current format version that every later reader must open.

Run once per released format version: `python tests/data/make_format_fixture.py`. It does not touch those that
are there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hepdata.cloud import PairList, PointCloud
from hepdata.schema import SCHEMAS
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.dataset.manifest import FORMAT_VERSION, FileFormat
from hepdata.storage.dataset.names import name_shard
from hepdata.storage.parquet.writer import write_shard

HERE = Path(__file__).parent


def make_cloud(task: str, event_id: int) -> PointCloud:
    """A cloud whose values follow from the names of its columns: `test_format.py` knows the rule."""
    n = 4 + event_id
    columns = {}
    for number, column in enumerate(SCHEMAS[task].columns):
        values = (np.arange(n) * (number + 1) + event_id) % 7
        columns[column.name] = (values % 2 == 1) if column.dtype == "bool" else values.astype(column.dtype)
    lists: list[PairList | None] = [None, None]
    if task == "tracking":
        ring = PairList(np.arange(n + 1, dtype=np.int32), np.roll(np.arange(n, dtype=np.int32), -1))
        empty = PairList(np.zeros(n + 1, np.int32), np.empty(0, np.int32))
        lists = [empty, ring]
    return PointCloud(task, event_id, event_id % 2, columns, *lists)


def make_dataset(task: str, file_format: FileFormat) -> None:
    """Write `v<version>-<task>-<format>` beside this file."""
    out = HERE / f"v{FORMAT_VERSION}-{task}-{file_format}"
    if out.exists():
        raise SystemExit(f"{out} exists: a released format does not change")
    staging = out.with_suffix(".partial")
    staging.mkdir()
    splits = {}
    for split, events in (("train", [[0, 1], [2]]), ("valid", [[3]]), ("test", [[4]])):
        splits[split] = [
            write_shard(
                staging / name_shard(split, i, len(events)),
                [make_cloud(task, event) for event in own],
                SCHEMAS[task],
            )
            for i, own in enumerate(events)
        ]
    configuration = {"task": task, "source": {"made": "by make_format_fixture.py"}}
    finish_dataset(
        staging,
        out,
        schema=SCHEMAS[task],
        splits=splits,
        configuration=configuration,
        file_format=file_format,
    )


if __name__ == "__main__":
    for task in ("tracking", "pileup"):
        for file_format in ("parquet", "hdf5"):
            make_dataset(task, file_format)  # type: ignore[arg-type]
