"""TrackML events: hits, cells, particles and truth of one event, and the modules of the detector.

In: the files of one event; out: columns by name, hits in order of their id. All ids are unique, all
references valid, and tables are joined by id, never by row order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.trackml_files import EventFiles, RawFile
from hepdata.readers.trackml_table import Columns, TableFormat, read_table

_ID = "int64"
_NUMBER = "float64"
# mm: a hundred metres, beyond every detector.
POSITION = (-1e5, 1e5)
# GeV: beyond every collider.
MOMENTUM = (-1e6, 1e6)
# Columns of a particle: vertex (neutral ones may decay far outside), momentum and charge.
PARTICLE_BOUNDS = (
    dict.fromkeys(("vx", "vy", "vz"), (-1e9, 1e9))
    | dict.fromkeys(("px", "py", "pz"), MOMENTUM)
    | {"q": (-100.0, 100.0)}
)

HITS = TableFormat(
    name="TrackML hits",
    columns={
        "hit_id": _ID, "x": _NUMBER, "y": _NUMBER, "z": _NUMBER,
        "volume_id": _ID, "layer_id": _ID, "module_id": _ID,
    },
    needed=("hit_id", "x", "y", "z", "volume_id", "layer_id", "module_id"),
    bounds={
        "hit_id": (0, 2**31 - 1), "x": POSITION, "y": POSITION, "z": POSITION,
        "volume_id": (0, 2**15 - 1), "layer_id": (0, 2**15 - 1), "module_id": (0, 2**31 - 1),
    },
)  # fmt: skip
CELLS = TableFormat(
    name="TrackML cells",
    columns={"hit_id": _ID, "ch0": _ID, "ch1": _ID, "value": _NUMBER},
    needed=("hit_id", "ch0", "ch1", "value"),
    # A fraction in the challenge; other simulations write charges in electrons.
    bounds={"ch0": (0, 2**20), "ch1": (0, 2**20), "value": (0, 1e9)},
)
TRUTH = TableFormat(
    name="TrackML truth",
    columns={"hit_id": _ID, "particle_id": _ID}
    | dict.fromkeys(("tx", "ty", "tz", "tpx", "tpy", "tpz", "weight"), _NUMBER),
    needed=("hit_id", "particle_id", "weight"),
    # The weights of an event add up to 1 in the challenge; other simulations may count every hit as 1.
    bounds={"particle_id": (0, 2**63 - 1), "weight": (0, 1e9)},
)
PARTICLES = TableFormat(
    name="TrackML particles",
    columns={"particle_id": _ID}
    | dict.fromkeys(("vx", "vy", "vz", "px", "py", "pz"), _NUMBER)
    | {"q": _ID, "nhits": _ID},
    needed=("particle_id", *PARTICLE_BOUNDS),
    bounds={"particle_id": (0, 2**63 - 1)} | PARTICLE_BOUNDS,
    optional=frozenset({"particle_type"}),
)


@dataclass(frozen=True)
class TrackMLEvent:
    """One event, joined by id.

    Axes: J hits in order of hit_id, K particles in order of particle_id, C cells in order of hit_id.

    Attributes:
        event_id: Event number.
        stem: Common part of the names of its files, for messages.
        hits: hit_id, x, y, z (mm), volume_id, layer_id, module_id; (J,) each.
        cells: hit_id, ch0, ch1, value; (C,) each; None if not requested.
        particle_id: (J,) the particle that made each hit, 0 for noise; None for an event without truth.
        weight: (J,) of each hit in the challenge's score; None for an event without truth.
        particles: particle_id, vx, vy, vz (mm), px, py, pz (GeV), q (e); (K,) each; None for an event without
            truth.
    """

    event_id: int
    stem: str
    hits: Columns
    cells: Columns | None
    particle_id: NDArray[np.int64] | None
    weight: NDArray[np.float64] | None
    particles: Columns | None


def read_event(files: EventFiles, *, with_cells: bool, with_truth: bool) -> TrackMLEvent:
    """Read one event.

    Raises:
        InputError: A part is missing or unreadable, an id occurs twice or refers to nothing, a hit has no
            cells or no truth, or the event is empty.
    """
    hits_file = find_part(files, "hits", "the hits are the event itself")
    is_counted = with_cells or with_truth
    hits = sort_unique(hits_file, read_table(hits_file, HITS, is_counted=is_counted), "hit_id")
    if not len(hits["hit_id"]):
        raise InputError(
            hits_file, found="no hits", expected="at least one hit", remedy="leave the empty event out"
        )
    cells = particle_id = weight = particles = None
    if with_cells:
        file = find_part(files, "cells", "give `cell_features=False` to build without cluster shapes")
        cells = join_cells(file, read_table(file, CELLS, is_counted=True), hits["hit_id"])
    if with_truth:
        remedy = "leave the event out, or give `unlabelled=True` to ignore all truth"
        truth_file = find_part(files, "truth", remedy)
        file = find_part(files, "particles", remedy)
        truth = sort_unique(truth_file, read_table(truth_file, TRUTH, is_counted=True), "hit_id")
        check_same_ids(truth_file, "truth", truth["hit_id"], hits["hit_id"])
        particle_id, weight = truth["particle_id"], truth["weight"]
        particles = sort_unique(file, read_table(file, PARTICLES, is_counted=True), "particle_id")
        check_particles(file, particle_id, particles["particle_id"])
    return TrackMLEvent(files.event_id, files.stem, hits, cells, particle_id, weight, particles)


def find_part(files: EventFiles, part: str, remedy: str) -> RawFile:
    """The file of a part, which must be there."""
    try:
        return files.parts[part]
    except KeyError:
        there = ", ".join(files.parts)
        raise InputError(
            f"event {files.event_id}",
            found=f"no {part} file (only {there})",
            expected=f"{files.stem}-{part}.csv or .csv.gz",
            remedy=remedy,
        ) from None


def sort_unique(file: RawFile, table: Columns, key: str) -> Columns:
    """The rows in ascending order of `key`, which must be unique."""
    ids = table[key]
    if (ids[1:] > ids[:-1]).all():
        return table
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    doubled = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(doubled):
        raise InputError(
            file,
            found=f"{key} {ordered[doubled[0]]} twice",
            expected=f"every {key} once",
            remedy="repair the file or leave the event out",
        )
    return {name: values[order] for name, values in table.items()}


def join_cells(file: RawFile, cells: Columns, hit_id: NDArray[np.int64]) -> Columns:
    """The cells in order of their hit, after a check that every hit has cells and every cell a hit."""
    owner = cells["hit_id"]
    if not (owner[1:] >= owner[:-1]).all():
        order = np.argsort(owner, kind="stable")
        cells = {name: values[order] for name, values in cells.items()}
        owner = cells["hit_id"]
    starts = (
        np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]]) if len(owner) else np.array([], dtype=np.int64)
    )
    check_same_ids(file, "cells", owner[starts], hit_id)
    return cells


def check_same_ids(file: RawFile, part: str, ids: NDArray[Any], hit_id: NDArray[np.int64]) -> None:
    """Check that a part has every hit and no other."""
    if len(ids) == len(hit_id) and (ids == hit_id).all():
        return
    lacking = np.setdiff1d(hit_id, ids, assume_unique=True)
    if len(lacking):
        remedy = (
            "give `cell_features=False` to build without cluster shapes"
            if part == "cells"
            else "leave the event out"
        )
        raise InputError(
            file,
            found=f"no {part} for hit {lacking[0]} ({len(lacking)} such hits)",
            expected=f"{part} of every hit",
            remedy=f"repair the file or {remedy}",
        )
    unknown = np.setdiff1d(ids, hit_id, assume_unique=True)
    raise InputError(
        file,
        found=f"{part} of hit {unknown[0]}, which the hits file lacks ({len(unknown)} such hits)",
        expected=f"{part} of known hits only",
        remedy="check that the files belong to the same event",
    )


def check_particles(file: RawFile, particle_id: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    """Check that every particle with hits is recorded."""
    used = np.unique(particle_id)
    lacking = np.setdiff1d(used[used != 0], known, assume_unique=True)
    if len(lacking):
        raise InputError(
            file,
            found=f"no particle {lacking[0]}, which the truth file names ({len(lacking)} such particles)",
            expected="a record of every particle that made a hit",
            remedy="repair the file or leave the event out",
        )
