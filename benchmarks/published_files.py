"""Clouds as the published files hold them: one pickle per cloud, pairs as (2, E) 64-bit integers.

The nearest-neighbour graph that the published files carry too is left out: our datasets have none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hepdata.cloud import PointCloud

X_COLUMNS = "r phi z eta u v charge_frac leta lphi lx ly lz geta gphi".split()  # noqa: SIM905


def write_pickle(path: Path, cloud: PointCloud) -> None:
    """Save one cloud in the published layout."""
    x = np.stack([cloud.columns[name] for name in X_COLUMNS], axis=1)
    tensors = {
        "x": x,
        "pos": cloud.coords,
        "layer": cloud.layer.astype(np.int64),
        "particle_id": cloud.particle_id,
        "pt": cloud.pt,
        "reconstructable": cloud.is_reconstructable.astype(np.int64),
        "sector": np.full(cloud.n_points, cloud.sector, np.int64),
    }
    if cloud.positives is not None and cloud.negatives is not None:
        pairs = [cloud.positives.as_edges(), cloud.negatives.as_edges()]
        tensors["point_pairs_index_rad"] = np.concatenate(pairs, axis=1).astype(np.int64)
    torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, path)
