"""Clouds as one awkward array: a record per cloud, a list per column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hepdata.loader.split import Split


def to_awkward(split: Split, columns: Sequence[str] | None = None, *, pairs: bool = False) -> ak.Array:
    """All clouds of a split in memory.

    Args:
        split: Which clouds.
        columns: Names; all where not given.
        pairs: Whether `positives` and `negatives` are added: for every point the list of its partners.
    """
    clouds = [split.read(i, columns, pairs=pairs) for i in range(len(split))]
    counts = np.array([cloud.n_points for cloud in clouds], np.int64)
    fields: dict[str, Any] = {
        "event_id": np.array([cloud.event_id for cloud in clouds], np.int64),
        "sector": np.array([cloud.sector for cloud in clouds], np.int32),
        "n_points": counts.astype(np.int32),
    }
    names = split.column_names if columns is None else columns
    for name in names:
        flat = [cloud.columns[name] for cloud in clouds]
        fields[name] = ak.unflatten(_join(flat, split.schema.column(name).dtype), counts)
    if pairs and split.manifest.has_pairs:
        for name in ("positives", "negatives"):
            lists = [getattr(cloud, name) for cloud in clouds]
            partners = ak.unflatten(
                _join([own.idx for own in lists], "int32"),
                _join([np.diff(own.ptr) for own in lists], "int32"),
            )
            fields[name] = ak.unflatten(partners, counts)
    return ak.zip(fields, depth_limit=1)


def _join(parts: list[Any], dtype: str) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
