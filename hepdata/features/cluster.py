"""The shape of the cluster of cells of a hit: extent, direction and charge.

In: the cells of an event and the modules of its hits; out: one array per feature. Axes: J hits, C cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi
from hepdata.errors import InputError
from hepdata.features.hits import pseudorapidity
from hepdata.readers.trackml_detector import Detector
from hepdata.readers.trackml_table import Columns

CLUSTER_FEATURES = ("charge_frac", "leta", "lphi", "lx", "ly", "lz", "geta", "gphi")


def shape_clusters(
    cells: Columns, hit_id: NDArray[np.int64], module: NDArray[np.int64], detector: Detector, event: str
) -> dict[str, NDArray[np.float64]]:
    """Cluster features of some hits of an event.

    With n_u, n_v the cells that the cluster spans, l = (n_u·pitch_u, n_v·pitch_v, 2·module_t) in the module's
    frame and g = R·l in the detector's; charge_frac is the mean charge of a cell.

    Args:
        cells: Cells of these hits (each has at least one) and perhaps of others, in order of hit_id.
        hit_id: (J,) ascending.
        module: (J,) row of each hit's module in the detector.
        detector: The modules.
        event: Name of the event, for messages.

    Raises:
        InputError: A cluster is larger than its module.
    """
    row = np.minimum(np.searchsorted(hit_id, cells["hit_id"]), len(hit_id) - 1)
    is_wanted = hit_id[row] == cells["hit_id"]
    row = row[is_wanted]
    start = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])  # (J,) first cell of every hit
    n_cells = np.diff(np.r_[start, len(row)])
    lx = _span(cells["ch0"][is_wanted], start) * detector.pitch[module, 0]
    ly = _span(cells["ch1"][is_wanted], start) * detector.pitch[module, 1]
    _check_sizes(np.hypot(lx, ly), hit_id, 2.0 * detector.half_size[module], event)
    lz = 2.0 * detector.thickness[module]
    local = np.stack([lx, ly, lz], axis=1)
    gx, gy, gz = np.einsum("jab,jb->aj", detector.rotation[module], local)
    return {
        "charge_frac": np.add.reduceat(cells["value"][is_wanted], start) / n_cells,
        "leta": pseudorapidity(np.hypot(lx, ly), lz),
        "lphi": np.arctan2(ly, lx),
        "lx": lx,
        "ly": ly,
        "lz": lz,
        "geta": pseudorapidity(np.hypot(gx, gy), gz),
        "gphi": np.asarray(wrap_phi(np.arctan2(gy, gx)), dtype=np.float64),
    }


def _span(channel: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cells from the lowest to the highest channel of each hit."""
    highest = np.maximum.reduceat(channel, start).astype(np.float64)
    return highest - np.minimum.reduceat(channel, start) + 1.0


def _check_sizes(
    size: NDArray[np.float64], hit_id: NDArray[np.int64], limit: NDArray[np.float64], event: str
) -> None:
    # Dimensions in the detectors file are rounded: the outermost cells may lie slightly outside.
    too_large = np.flatnonzero(size > 1.05 * limit + 1.0)
    if len(too_large):
        hit = too_large[0]
        raise InputError(
            event,
            found=f"a cluster {size[hit]:.1f} mm long at hit {hit_id[hit]}",
            expected=f"a cluster within its module, which is {limit[hit]:.1f} mm long",
            remedy="check the channels in the cells file and that `detectors` belongs to these events",
        )
