"""The modules of the TrackML detector: `detectors.csv`.

In: the file; out: per module its pitch, thickness and rotation, found by (volume, layer, module).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.trackml_files import RawFile
from hepdata.readers.trackml_table import Columns, TableFormat, read_table

ROTATION = tuple(f"rot_{row}{column}" for row in "xyz" for column in "uvw")
_SIZES = ("module_t", "module_minhu", "module_maxhu", "module_hv", "pitch_u", "pitch_v")
_IDS = ("volume_id", "layer_id", "module_id")

DETECTORS = TableFormat(
    name="TrackML detectors",
    columns=dict.fromkeys(_IDS, "int64") | dict.fromkeys(("cx", "cy", "cz", *ROTATION, *_SIZES), "float64"),
    needed=(*_IDS, "cx", "cy", "cz", *ROTATION, *_SIZES),
    bounds=dict.fromkeys(("cx", "cy", "cz"), (-1e5, 1e5)) | dict.fromkeys(_SIZES, (-1e5, 1e5)),
)


@dataclass(frozen=True)
class Detector:
    """All modules, M of them, in order of (volume, layer, module).

    Attributes:
        name: File that it was read from, for messages.
        key: (M,) volume, layer and module packed into one number, ascending.
        centre: (M, 3) position in mm.
        rotation: (M, 3, 3) from the module's frame (u, v, w) to the detector's (x, y, z).
        thickness: (M,) module_t: half the thickness, in mm.
        half_size: (M,) distance from the centre to the farthest corner, in mm.
        pitch: (M, 2) cell size along u and v, in mm.
    """

    name: str
    key: NDArray[np.int64]
    centre: NDArray[np.float64]
    rotation: NDArray[np.float64]
    thickness: NDArray[np.float64]
    half_size: NDArray[np.float64]
    pitch: NDArray[np.float64]

    def list_layers(self) -> list[tuple[int, int]]:
        """Every (volume, layer) of the detector in order."""
        return [(int(key) >> 16, int(key) & 0xFFFF) for key in np.unique(self.key >> 32)]

    def find_modules(self, hits: Columns, event: str) -> NDArray[np.int64]:
        """The row of every hit's module.

        Raises:
            InputError: A hit lies in a module that the file lacks, or most hits lie far outside of their
                modules: the detectors file belongs to other events.
        """
        key = pack_module(hits["volume_id"], hits["layer_id"], hits["module_id"])
        row = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        unknown = np.flatnonzero(self.key[row] != key)
        if len(unknown):
            hit = unknown[0]
            names = "/".join(str(hits[name][hit]) for name in _IDS)
            raise InputError(
                event,
                found=f"hit {hits['hit_id'][hit]} in module {names} (volume/layer/module), "
                f"which {self.name} lacks",
                expected="hits in known modules only",
                remedy="give the detectors file that belongs to these events with `detectors`",
            )
        self._check_positions(hits, row, event)
        return row

    def _check_positions(self, hits: Columns, row: NDArray[np.int64], event: str) -> None:
        position = np.stack([hits["x"], hits["y"], hits["z"]], axis=1)
        distance = np.linalg.norm(position - self.centre[row], axis=1)
        is_outside = distance > self.half_size[row] + 20.0
        # Some hits may lie outside their module; if most do, the file describes another detector.
        if 2 * np.count_nonzero(is_outside) > len(row):
            hit = int(np.flatnonzero(is_outside)[0])
            raise InputError(
                event,
                found=f"hit {hits['hit_id'][hit]} {distance[hit]:.0f} mm from the centre of its module in "
                f"{self.name}, and {np.count_nonzero(is_outside)} of {len(row)} hits outside of theirs",
                expected="hits on their modules",
                remedy="give the detectors file that belongs to these events with `detectors`",
            )


def pack_module(
    volume_id: NDArray[Any], layer_id: NDArray[Any], module_id: NDArray[Any]
) -> NDArray[np.int64]:
    """One number per module that sorts by volume, then layer, then module."""
    return np.asarray((volume_id << 48) + (layer_id << 32) + module_id, dtype=np.int64)


def read_detector(file: RawFile) -> Detector:
    """Read and check the modules.

    Raises:
        InputError: It is not a TrackML detectors file, or a module is doubled or impossible.
    """
    return make_detector(file, read_table(file, DETECTORS))


def make_detector(file: RawFile, table: Columns) -> Detector:
    """Check the modules of a table and put them in order.

    Raises:
        InputError: A module is doubled or impossible.
    """
    for name in _IDS:
        limit = 1 << (32 if name == "module_id" else 15)
        wrong = np.flatnonzero((table[name] < 0) | (table[name] >= limit))
        if len(wrong):
            raise _bad_module(
                file, table, int(wrong[0]), f"{name} {table[name][wrong[0]]}", "a module number"
            )
    key = pack_module(*(table[name] for name in _IDS))
    if not len(key):
        raise InputError(file, found="no modules", expected="a detectors file", remedy="check the file")
    order = np.argsort(key, kind="stable")
    doubled = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(doubled):
        raise _bad_module(file, table, int(order[doubled[0]]), "the same module twice", "every module once")
    _check_modules(file, table)
    return Detector(
        name=file.name,
        key=key[order],
        centre=np.stack([table[name][order] for name in ("cx", "cy", "cz")], axis=1),
        rotation=np.stack([table[name][order] for name in ROTATION], axis=1).reshape(-1, 3, 3),
        thickness=table["module_t"][order],
        half_size=np.hypot(table["module_maxhu"], table["module_hv"])[order],
        pitch=np.stack([table["pitch_u"][order], table["pitch_v"][order]], axis=1),
    )


def _check_modules(file: RawFile, table: Columns) -> None:
    for name in ("module_t", "pitch_u", "pitch_v"):
        wrong = np.flatnonzero(table[name] <= 0)
        if len(wrong):
            raise _bad_module(
                file, table, int(wrong[0]), f"{name} {table[name][wrong[0]]}", "a positive length"
            )
    rotation = np.stack([table[name] for name in ROTATION], axis=1).reshape(-1, 3, 3)
    product = rotation @ rotation.transpose(0, 2, 1)
    wrong = np.flatnonzero(np.abs(product - np.eye(3)).max(axis=(1, 2)) > 1e-3)
    if len(wrong):
        raise _bad_module(
            file, table, int(wrong[0]), "a rotation that is not orthogonal", "rot_xu … rot_zw as a rotation"
        )


def _bad_module(file: RawFile, table: Columns, row: int, found: str, expected: str) -> InputError:
    names = "/".join(str(table[name][row]) for name in _IDS)
    return InputError(
        f"{file}, module {names}",
        found=found,
        expected=expected,
        remedy="give the detectors file that belongs to the events with `detectors`",
    )
