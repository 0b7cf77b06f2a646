"""Clouds as one pandas table: a row per point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hepdata.loader.split import Split


def to_pandas(split: Split, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """All points of a split in memory, under an index of event, sector and point number."""
    clouds = [split.read(i, columns, pairs=False) for i in range(len(split))]
    names = split.column_names if columns is None else tuple(columns)
    counts = [cloud.n_points for cloud in clouds]
    index = pd.MultiIndex.from_arrays(
        [
            np.repeat(np.array([cloud.event_id for cloud in clouds], np.int64), counts),
            np.repeat(np.array([cloud.sector for cloud in clouds], np.int32), counts),
            np.concatenate([np.arange(count) for count in counts] or [np.empty(0, np.int64)]),
        ],
        names=["event_id", "sector", "point"],
    )
    empty = {name: np.empty(0, split.schema.column(name).dtype) for name in names}
    values = {
        name: np.concatenate([cloud.columns[name] for cloud in clouds]) if clouds else empty[name]
        for name in names
    }
    return pd.DataFrame(values, index=index)
