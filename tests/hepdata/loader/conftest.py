"""Fixtures of the loader's tests: clouds as the published files hold them."""

import numpy as np
import pytest
import torch

X_NAMES = ["r", "phi", "z", "eta", "u", "v", "charge_frac", "leta", "lphi", "lx", "ly", "lz", "geta", "gphi"]
X_SCALES = np.array([1000.0, np.pi, 1000.0, 1.0, 1e-3, 1e-3] + [1.0] * 8)


@pytest.fixture(scope="session")
def as_published():
    """A cloud's tensors in the published layout: features in one matrix, pairs of both kinds in one list."""

    def convert(cloud, *, scaled=True):
        x = np.stack([cloud.columns[name] for name in X_NAMES], axis=1).astype(np.float64)
        pairs = np.concatenate([cloud.positives.as_edges(), cloud.negatives.as_edges()], axis=1)
        tensors = {
            "x": (x / X_SCALES if scaled else x).astype(np.float32),
            "pos": cloud.coords[:, :2],
            "layer": cloud.layer.astype(np.int64),
            "particle_id": cloud.particle_id,
            "pt": cloud.pt,
            "reconstructable": cloud.is_reconstructable.astype(np.int64),
            "point_pairs_index_rad": pairs.astype(np.int64),
            "evtid": np.array([cloud.event_id]),
            "s": np.array([cloud.sector]),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in tensors.items()}

    return convert
