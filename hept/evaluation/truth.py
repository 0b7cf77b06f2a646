"""True groups of a batch: its columns enter, labels and particle properties leave.

Axes: N points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.loader.batch import Batch
from hepdata.schema import Target
from hept.objectives.pairs import select_points

Truth = tuple[NDArray[np.int64], NDArray[np.floating], NDArray[np.floating], NDArray[np.bool_]]


def list_truth(batch: Batch, target: Target) -> Truth:
    """Label, pT and η of its particle, and whether the particle counts, (N,) each.

    Without a pT, nothing is below a threshold; without η (imported files may lack it), everything is at 0.
    """
    n = batch.n_points
    return (
        batch.columns[target.label].cpu().numpy(),
        batch.columns[target.pt].cpu().numpy() if target.pt is not None else np.full(n, np.inf),
        batch.columns[target.eta].cpu().numpy() if target.eta in batch.columns else np.zeros(n),
        select_points(batch, target, -np.inf).cpu().numpy(),
    )
