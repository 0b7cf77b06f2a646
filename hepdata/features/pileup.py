"""Particles of pileup events to point clouds: class, score flag, acceptance, order of storage.

In: a `ParticleTable` (consecutive events on one flat axis); out: one cloud per event, or why there is none.

Axes: V events, P particles of all of them, N points of one cloud.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.angles import wrap_phi
from hepdata.cloud import PointCloud
from hepdata.errors import HeptError, InputError
from hepdata.features.curve import curve_order
from hepdata.particle_classes import PARTICLE_CLASSES
from hepdata.readers.delphes_events import ParticleTable
from hepdata.schema import SCORED_PT

# The class of a neutral particle by its |PDG code|; the last entry is for all larger codes.
_CODES = {code: number for number, (_, code) in enumerate(PARTICLE_CLASSES) if code is not None}
_CLASS_OF = np.full(max(_CODES) + 2, len(PARTICLE_CLASSES) - 1, dtype=np.int32)
_CLASS_OF[list(_CODES)] = list(_CODES.values())
# Largest absolute values, far beyond every collider; larger ones are treated as damage.
_LIMITS = {
    "eta": math.inf,
    "phi": 100.0,
    "px": 1e6,
    "py": 1e6,
    "pt": 1e6,
    "energy": 1e7,
    "rapidity": 100.0,
    "charge": 100,
}


@dataclass(frozen=True)
class PileupCuts:
    """Which particles become points, and which of these are scored.

    Attributes:
        max_eta: Acceptance in |η|; particles beyond (Delphes writes ±999.9 along the beam) are dropped.
        scored_pt: GeV; neutral points above it enter loss and metric.
    """

    max_eta: float = 20.0
    scored_pt: float = SCORED_PT


def classify(pid: NDArray[np.int32], charge: NDArray[np.int32]) -> NDArray[np.int32]:
    """(P,) position of the class of each particle in `PARTICLE_CLASSES`."""
    out = _CLASS_OF.take(np.abs(pid), mode="clip")
    out *= charge == 0
    return out


def make_clouds(
    table: ParticleTable, first_event_id: int, cuts: PileupCuts, where: str
) -> Iterator[list[PointCloud] | HeptError]:
    """The cloud of every event of the table, in order; an event without points gives an empty list.

    Points are stored along the space-filling curve, ties by pT. The order of the file would reveal the label:
    the hard collision comes first.
    """
    columns = dict(table.columns)
    is_kept = np.abs(columns["eta"]) <= cuts.max_eta
    problems = {**_find_impossible(table, is_kept, where), **table.problems}
    for entry in problems:
        is_kept[slice(*table.offsets[entry - table.first : entry - table.first + 2])] = False
    outside = np.abs(columns["phi"]) >= np.float32(np.pi)
    if outside.any():
        columns["phi"] = np.where(outside, wrap_phi(columns["phi"]), columns["phi"])
    columns["pid_class"] = classify(columns.pop("pid"), columns["charge"])
    columns["is_scored"] = (columns["charge"] == 0) & (columns["pt"] > np.float32(cuts.scored_pt))
    if table.is_leading is not None:
        columns["is_leading"] = table.is_leading
        columns.setdefault("hard_fraction", table.is_leading.astype(np.float32))
        # Detectors measure the vertex of charged particles, so this is an input and no label.
        columns["vertex"] = np.where(columns["charge"] == 0, 0, np.where(table.is_leading, 1, -1)).astype(
            np.int32
        )
    order, offsets = _order_points(columns, is_kept, table.offsets)
    n_kept = np.diff(offsets)
    points = {"index_in_source": (order - np.repeat(table.offsets[:-1], n_kept)).astype(np.int32)}
    # All indices are valid: mode="clip" skips numpy's bounds check.
    points |= {name: values.take(order, mode="clip") for name, values in columns.items()}
    for number, n_dropped in enumerate((np.diff(table.offsets) - n_kept).tolist()):
        begin, end = offsets[number : number + 2]
        if table.first + number in problems:
            yield problems[table.first + number]
        elif begin == end:
            yield []
        else:
            event = {name: values[begin:end] for name, values in points.items()}
            yield [PointCloud("pileup", first_event_id + number, 0, event, n_dropped=n_dropped)]


def _order_points(
    columns: Mapping[str, NDArray[Any]], is_kept: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The particles that become points, in the order in which they are stored, and where events begin."""
    eta, phi, pt = (columns[name] for name in ("eta", "phi", "pt"))
    if is_kept.all():
        return curve_order(eta, phi, pt, offsets), offsets
    kept = np.flatnonzero(is_kept)
    offsets = np.searchsorted(kept, offsets)
    return kept[curve_order(eta[kept], phi[kept], pt[kept], offsets)], offsets


def _find_impossible(table: ParticleTable, is_kept: NDArray[np.bool_], where: str) -> dict[int, HeptError]:
    """Events with an impossible kept particle: NaN, infinite or absurd values, negative pT."""
    problems: dict[int, HeptError] = {}
    for name, limit in _LIMITS.items():
        values = table.columns[name]
        # NaN fails this comparison too.
        is_possible = (values <= limit) & (values >= (0 if name == "pt" else -limit))
        if is_possible.all():
            continue
        bad = np.isnan(values) if name == "eta" else is_kept & ~is_possible
        for particle in np.flatnonzero(bad):
            number = int(np.searchsorted(table.offsets, particle, side="right")) - 1
            entry = table.first + number
            if entry not in problems:
                problems[entry] = InputError(
                    f"{where}, entry {entry}",
                    found=f"{values[particle]} as {name} of particle {particle - table.offsets[number]}",
                    expected=f"a number{' from 0' if name == 'pt' else ''} up to {limit:g}",
                    remedy="create the file again, or skip such events with `on_error='skip'`",
                )
    return problems
