"""The modules of a detector as ACTS describes them: `detectors.csv`, and cell sizes of its digitization.

In: the file of ACTS' geometry writer, and the JSON file that configured the digitization; out: a `Detector`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError
from hepdata.readers.trackml_detector import ROTATION, Detector, make_detector
from hepdata.readers.trackml_files import RawFile
from hepdata.readers.trackml_table import Columns, TableFormat, read_table

_IDS = ("volume_id", "layer_id", "module_id")
_CENTRE = ("cx", "cy", "cz")
_BOUNDS = ("bound_param0", "bound_param1", "bound_param2", "bound_param3")
_RECTANGLE, _TRAPEZOID = 6, 7  # ACTS' SurfaceBounds::BoundsType
_MARK = "digitization-configuration"

ACTS_DETECTORS = TableFormat(
    name="ACTS detectors",
    columns=dict.fromkeys((*_IDS, "bounds_type"), "int64")
    | dict.fromkeys((*_CENTRE, *ROTATION, *_BOUNDS, "module_t"), "float64"),
    needed=(*_IDS, "bounds_type", *_CENTRE, *ROTATION, *_BOUNDS, "module_t"),
    bounds=dict.fromkeys(_CENTRE, (-1e5, 1e5)),
    has_others=True,
)

Pitches = dict[tuple[int, ...], tuple[float, float]]


def read_acts_detector(file: RawFile, digitization: RawFile | None) -> Detector:
    """Read the sensitive modules.

    Args:
        file: Of ACTS' `CsvTrackingGeometryWriter`.
        digitization: JSON that has the cells; without it the pitches are NaN.

    Raises:
        InputError: Not such a file, or a module without cells.
    """
    table = read_table(file, ACTS_DETECTORS)
    table = {name: values[table["module_id"] > 0] for name, values in table.items()}
    half_u, half_v = _half_sizes(table)
    pitch = np.full((len(half_u), 2), np.nan)
    if digitization is not None:
        pitch = _find_pitches(table, read_pitches(digitization), digitization)
    sizes = {"module_maxhu": half_u, "module_hv": half_v, "pitch_u": pitch[:, 0], "pitch_v": pitch[:, 1]}
    return make_detector(file, {**table, **sizes})


def is_digitization(content: bytes) -> bool:
    """Whether a JSON file configures a digitization."""
    return _MARK.encode() in content[:1000] or _MARK.encode() in content[-1000:]


def read_pitches(file: RawFile) -> Pitches:
    """Cell sizes by volume, (volume, layer) or (volume, layer, module).

    Raises:
        InputError: Not such a file, or cells of unequal size.
    """
    try:
        entries = json.loads(file.read())["entries"]
        return {_name_place(entry): _read_pitch(entry["value"]) for entry in entries}
    except (ValueError, KeyError, TypeError, StopIteration, ZeroDivisionError) as error:
        raise InputError(
            file,
            found=f"no cells ({type(error).__name__}: {error})",
            expected="ACTS' digitization configuration with equidistant cells along binX and binY",
            remedy="give that of the events, or give `cell_features=False`",
        ) from error


def _name_place(entry: dict[str, Any]) -> tuple[int, ...]:
    place = [entry.get(name) for name in ("volume", "layer", "sensitive")]
    return tuple(int(number) for number in place if number is not None)


def _read_pitch(value: dict[str, Any]) -> tuple[float, float]:
    axes = value["geometric"]["segmentation"]["binningdata"]
    u, v = (next(axis for axis in axes if axis["value"] == name) for name in ("binX", "binY"))
    if any(axis["type"] != "equidistant" for axis in (u, v)):
        raise ValueError("cells of unequal size")
    return (u["max"] - u["min"]) / u["bins"], (v["max"] - v["min"]) / v["bins"]


def _half_sizes(table: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest half width and half height; infinite for shapes that are neither rectangle nor trapezoid."""
    kind = table["bounds_type"]
    a, b, c, d = (table[name] for name in _BOUNDS)
    is_rectangle, is_trapezoid = kind == _RECTANGLE, kind == _TRAPEZOID
    half_u = np.where(is_rectangle, c, np.where(is_trapezoid, np.maximum(a, b), np.inf))
    half_v = np.where(is_rectangle, d, np.where(is_trapezoid, c, np.inf))
    return half_u, half_v


def _find_pitches(table: Columns, pitches: Pitches, file: RawFile) -> NDArray[np.float64]:
    """The pitch (M, 2) of every module: the entry of the module, else of its layer, else of its volume."""
    found = np.empty((len(table["volume_id"]), 2))
    for row, place in enumerate(zip(*(table[name].tolist() for name in _IDS), strict=True)):
        pitch = next((pitches[place[:n]] for n in (3, 2, 1, 0) if place[:n] in pitches), None)
        if pitch is None:
            raise InputError(
                file,
                found=f"no cells of volume {place[0]}, layer {place[1]}, module {place[2]}",
                expected="an entry for every sensitive module",
                remedy="give the digitization configuration of these events",
            )
        found[row] = pitch
    return found
