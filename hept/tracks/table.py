"""Tracks as tables: labels and hits of events enter, files of hits and of fitted tracks leave.

The table of hits has `event_id`, `hit_id`, `track_id` (−1 for none); the table of tracks has one row a track
with the parameters of its helix, see `LAYOUT`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.features.sectors import Sectors
from hept.tracks.finder import Columns, locate, number_modules
from hept.tracks.helix import HitError, fit_helices
from hept.tracks.tree import NO_TRACK

# Units: GeV, rad, mm. A sigma is the error of the column before it, as far as it comes from the hits.
LAYOUT = pa.schema(
    [
        ("event_id", pa.int64()),
        ("track_id", pa.int64()),
        ("n_hits", pa.int32()),
        ("n_layers", pa.int32()),
        ("charge", pa.int8()),
        *(
            (name, pa.float32())
            for quantity in ("pt", "eta", "phi", "d0", "z0")
            for name in (quantity, f"{quantity}_sigma")
        ),
        ("chi2", pa.float32()),
        ("n_free", pa.int32()),
    ]
)


def name_fits(out: Path) -> Path:
    """Where the table of tracks is written: beside that of the hits."""
    return out.with_suffix(".fits.parquet")


def fit_tracks(
    label: NDArray[np.int64], columns: Columns, error: HitError
) -> dict[str, NDArray[np.generic]] | None:
    """Columns of the table of tracks but the event, by track number; None where hits have no positions."""
    layer, module = number_modules(columns, len(label))
    places = locate(np.zeros((len(label), 1)), columns, module)
    if places is None:
        return None
    hit = np.flatnonzero(label >= 0)
    numbers, track = np.unique(label[hit], return_inverse=True)
    n = len(numbers)
    fitted = fit_helices(
        track, places.x[hit], places.y[hit], places.z[hit], n, error=error, with_covariance=True
    )
    covariance = np.zeros((n, 5, 5)) if fitted.covariance is None else fitted.covariance
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.sqrt(np.einsum("mii->mi", covariance))
        pt = fitted.pt()
        values: dict[str, NDArray[np.generic]] = {
            "track_id": numbers,
            "n_hits": fitted.n_hits,
            "n_layers": np.bincount(np.unique(np.stack([track, layer[hit]], 1), axis=0)[:, 0], minlength=n),
            "charge": fitted.charge,
            "pt": pt,
            "pt_sigma": pt * sigma[:, 0] / np.abs(fitted.curvature),
            "eta": fitted.eta,
            "eta_sigma": sigma[:, 3] / np.sqrt(1 + fitted.slope**2),
            "phi": fitted.phi,
            "phi_sigma": sigma[:, 1],
            "d0": fitted.d0,
            "d0_sigma": sigma[:, 2],
            "z0": fitted.z0,
            "z0_sigma": sigma[:, 4],
            "chi2": fitted.chi2,
            "n_free": fitted.n_free,
        }
    return values


def tabulate_fits(event_id: int, values: dict[str, NDArray[np.generic]]) -> pa.Table:
    """Rows of the table of tracks for one event."""
    n = len(values["track_id"])
    arrays = [
        pa.array(np.full(n, event_id) if entry.name == "event_id" else values[entry.name]).cast(entry.type)
        for entry in LAYOUT
    ]
    return pa.Table.from_arrays(arrays, schema=LAYOUT)


def keep_home(label: NDArray[np.int64], columns: Columns, sectors: Sectors, sector: int) -> NDArray[np.int64]:
    """The tracks of one sector's cloud that have most of their hits in its core; −1 for all other hits.

    Sectors overlap: a track near an edge is found in both, and belongs to one.
    """
    if sectors.n_sectors == 1 or not {"u", "v"} <= set(columns):
        return label
    u, v = (columns[name].astype(np.float64) for name in ("u", "v"))
    home = sectors.find_home(u, v, label + 1)
    return np.where(home == sector, label, NO_TRACK)
