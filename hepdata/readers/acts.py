"""Events as ACTS writes them: measurements, cells, particles, and the map to simulated hits.

In: the CSV files of one event; out: a `TrackMLEvent`, so that everything behind it is shared. A measurement
becomes a hit; its volume, layer and module are those of its geometry identifier; its particle is that of the
first simulated hit in the map.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.trackml import (
    PARTICLE_BOUNDS,
    POSITION,
    TrackMLEvent,
    check_particles,
    check_same_ids,
    find_part,
    join_cells,
    sort_unique,
)
from hepdata.readers.trackml_files import EventFiles, RawFile
from hepdata.readers.trackml_table import Columns, TableFormat, read_table

# Bits of the parts of a particle's barcode in one particle_id, as the challenge packs them
_BARCODE = {"pv": 12, "sv": 12, "part": 16, "gen": 8, "subpart": 16}
_BARCODE_COLUMNS = tuple(f"particle_id_{name}" for name in _BARCODE)
# The first part has one bit less, since particle_id is signed.
_BARCODE_BOUNDS = {
    name: (0, 2 ** (bits - (name == "particle_id_pv")) - 1)
    for name, bits in zip(_BARCODE_COLUMNS, _BARCODE.values(), strict=True)
}

MEASUREMENTS = TableFormat(
    name="ACTS measurements",
    columns={"measurement_id": "int64", "geometry_id": "uint64"}
    | dict.fromkeys(("global_x", "global_y", "global_z"), "float64"),
    needed=("measurement_id", "geometry_id", "global_x", "global_y", "global_z"),
    bounds={"measurement_id": (0, 2**31 - 1)} | dict.fromkeys(("global_x", "global_y", "global_z"), POSITION),
    has_others=True,
)
CELLS = TableFormat(
    name="ACTS cells",
    columns=dict.fromkeys(("measurement_id", "channel0", "channel1"), "int64") | {"value": "float64"},
    needed=("measurement_id", "channel0", "channel1", "value"),
    bounds={"channel0": (0, 2**20), "channel1": (0, 2**20), "value": (0, 1e9)},
    has_others=True,
)
LINKS = TableFormat(
    name="ACTS measurement-simhit-map",
    columns=dict.fromkeys(("measurement_id", "hit_id"), "int64"),
    needed=("measurement_id", "hit_id"),
    bounds={"hit_id": (0, 2**31 - 1)},
    has_others=True,
)
SIMULATED_HITS = TableFormat(
    name="ACTS simulated hits",
    columns=dict.fromkeys(_BARCODE_COLUMNS, "int64"),
    needed=_BARCODE_COLUMNS,
    bounds=_BARCODE_BOUNDS,
    has_others=True,
)
PARTICLES = TableFormat(
    name="ACTS particles",
    columns=dict.fromkeys(_BARCODE_COLUMNS, "int64") | dict.fromkeys(PARTICLE_BOUNDS, "float64"),
    needed=(*_BARCODE_COLUMNS, *PARTICLE_BOUNDS),
    bounds=_BARCODE_BOUNDS | PARTICLE_BOUNDS,
    has_others=True,
)


def read_acts_event(files: EventFiles, *, with_cells: bool, with_truth: bool) -> TrackMLEvent:
    """Read one event.

    Every hit of a particle weighs 1 in a score: ACTS has no weights.

    Raises:
        InputError: A part is missing or unreadable, an id occurs twice or refers to nothing, a measurement
            has no cells or no simulated hit, or the event is empty.
    """
    file = find_part(files, "measurements", "the measurements are the event itself")
    read = read_table(file, MEASUREMENTS, is_counted=with_cells or with_truth)
    measurements = sort_unique(file, read, "measurement_id")
    if not len(measurements["measurement_id"]):
        raise InputError(
            file, found="no measurements", expected="at least one", remedy="leave the empty event out"
        )
    hits = _name_hits(measurements)
    cells = particle_id = weight = particles = None
    if with_cells:
        file = find_part(files, "cells", "give `cell_features=False` to build without cluster shapes")
        read = read_table(file, CELLS, is_counted=True)
        names = {"measurement_id": "hit_id", "channel0": "ch0", "channel1": "ch1", "value": "value"}
        cells = join_cells(file, {new: read[old] for old, new in names.items()}, hits["hit_id"])
    if with_truth:
        remedy = "leave the event out, or give `unlabelled=True` to ignore all truth"
        particle_id = _find_particles(files, hits["hit_id"], remedy)
        weight = np.ones(len(particle_id))
        file = find_part(files, "particles", remedy)
        read = read_table(file, PARTICLES, is_counted=True)
        known = {name: read[name] for name in PARTICLE_BOUNDS}
        particles = sort_unique(file, {"particle_id": pack_barcodes(read), **known}, "particle_id")
        check_particles(file, particle_id, particles["particle_id"])
    return TrackMLEvent(files.event_id, files.stem, hits, cells, particle_id, weight, particles)


def pack_barcodes(table: Columns) -> NDArray[np.int64]:
    """The challenge's particle_id: a barcode's five numbers in 12 + 12 + 16 + 8 + 16 bits."""
    packed = np.zeros(len(table[_BARCODE_COLUMNS[0]]), dtype=np.int64)
    for name, bits in zip(_BARCODE_COLUMNS, _BARCODE.values(), strict=True):
        packed = (packed << bits) | table[name]
    return packed


def _name_hits(measurements: Columns) -> Columns:
    identity = measurements["geometry_id"].astype(np.uint64)
    return {
        "hit_id": measurements["measurement_id"],
        "x": measurements["global_x"],
        "y": measurements["global_y"],
        "z": measurements["global_z"],
        # ACTS' GeometryIdentifier: volume 8 bits, boundary 8, layer 12, approach 8, sensitive 20, extra 8
        "volume_id": (identity >> np.uint64(56)).astype(np.int64),
        "layer_id": ((identity >> np.uint64(36)) & np.uint64(0xFFF)).astype(np.int64),
        "module_id": ((identity >> np.uint64(8)) & np.uint64(0xFFFFF)).astype(np.int64),
    }


def _find_particles(files: EventFiles, hit_id: NDArray[np.int64], remedy: str) -> NDArray[np.int64]:
    """The particle of every measurement."""
    file = find_part(files, "measurement-simhit-map", remedy)
    links = read_table(file, LINKS, is_counted=True)
    measurement, first = np.unique(links["measurement_id"], return_index=True)
    check_same_ids(file, "truth", measurement, hit_id)
    row = links["hit_id"][first]
    hits_file = find_part(files, "hits", remedy)
    barcodes = read_table(hits_file, SIMULATED_HITS, is_counted=True)
    _check_rows(file, row, hits_file, len(barcodes[_BARCODE_COLUMNS[0]]))
    return pack_barcodes({name: values[row] for name, values in barcodes.items()})


def _check_rows(file: RawFile, row: NDArray[np.int64], hits_file: RawFile, n: int) -> None:
    beyond = row[row >= n]
    if len(beyond):
        raise InputError(
            file,
            found=f"simulated hit {beyond[0]}, and {n} rows in {hits_file}",
            expected="rows of the simulated hits, counted from 0",
            remedy="check that the files belong to the same event",
        )
