"""The TrackML detector as ACTS builds it.

In: nothing but `pyacts`. Out: `ActsDetector`, ACTS' own objects and the same modules as a `ModuleTable`.
Volumes, layers and the modules of the barrels are numbered as in the challenge; modules of the endcaps have
ACTS' numbers. Axes: M modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hepdata.simulate.detector import FloatArray, IntArray, ModuleTable

from .packages import import_acts

FIELD = 2.0  # tesla, along the beam
BARRELS = (8, 13, 17)
PIXELS = (7, 8, 9)
# Cell sizes along u and v, in mm, of the challenge's detectors file: pixels, short strips, long strips
_PITCH = {
    **dict.fromkeys(PIXELS, (0.05, 0.05625)),
    **dict.fromkeys((12, 13, 14), (0.08, 1.2)),
    **dict.fromkeys((16, 18), (0.12, 10.4)),
    17: (0.12, 10.8),
}


@dataclass(frozen=True)
class ActsDetector:
    """The detector in both forms.

    Attributes:
        geometry: ACTS' tracking geometry, with the material of its layers.
        field: ACTS' magnetic field.
        modules: Every sensitive module.
        geometry_id: (M,) ACTS' identifiers of the modules, ascending; `order` maps to rows of `modules`.
        order: (M,) the row of each identifier.
    """

    geometry: Any
    field: Any
    modules: ModuleTable
    geometry_id: IntArray
    order: IntArray

    def find_modules(self, geometry_id: IntArray) -> IntArray:
        """Rows of the modules with these identifiers."""
        rows: IntArray = self.order[np.searchsorted(self.geometry_id, geometry_id)]
        return rows


def build_acts_detector() -> ActsDetector:
    """Build the detector.

    Raises:
        InputError: `pyacts` is not installed.
    """
    acts = import_acts()
    config = acts.examples.GenericDetector.Config()
    config.logLevel = config.surfaceLogLevel = config.layerLogLevel = config.volumeLogLevel = (
        acts.logging.ERROR
    )
    geometry = acts.examples.GenericDetector(config).trackingGeometry()
    context = acts.GeometryContext.dangerouslyDefaultConstruct()
    surfaces = [(i, s) for i, s in geometry.geoIdSurfaceMap().items() if i.sensitive > 0]
    identity = np.array([(i.volume, i.layer, i.sensitive, i.value) for i, _ in surfaces], dtype=np.int64)
    order = np.lexsort((identity[:, 2], identity[:, 1], identity[:, 0]))
    identity = identity[order]
    modules = _describe_modules(identity, [surfaces[row][1] for row in order], context)
    by_id = np.argsort(identity[:, 3])
    field = acts.ConstantBField(acts.Vector3(0, 0, FIELD * acts.UnitConstants.T))
    return ActsDetector(geometry, field, modules, identity[by_id, 3], by_id)


def _describe_modules(identity: IntArray, surfaces: list[Any], context: Any) -> ModuleTable:
    volume = identity[:, 0]
    frames = [surface.localToGlobalTransform(context) for surface in surfaces]
    bounds = np.array([_half_sizes(surface.bounds) for surface in surfaces])
    # Rounded, since ACTS keeps it as a 32-bit number
    half_thickness = np.array([surface.thickness for surface in surfaces]).round(6)
    return ModuleTable(
        volume_id=volume,
        layer_id=identity[:, 1],
        module_id=identity[:, 2],
        centre=np.array([_numbers(frame.translation, 3) for frame in frames]),
        rotation=np.array([_matrix(frame.rotation) for frame in frames]),
        min_half_u=bounds[:, 0],
        max_half_u=bounds[:, 1],
        half_v=bounds[:, 2],
        # As in the challenge's clusters: modules of the barrels collect the charge of half their thickness.
        depth=np.where(np.isin(volume, BARRELS), half_thickness, 2 * half_thickness),
        half_thickness=half_thickness,
        pitch=np.array([_PITCH[int(v)] for v in volume]),
        is_digital=~np.isin(volume, PIXELS),
    )


def _half_sizes(bounds: Any) -> tuple[float, float, float]:
    """Half widths at −v and +v, and the half height."""
    values = list(bounds.values())
    if type(bounds).__name__ == "TrapezoidBounds":
        return values[0], values[1], values[2]
    return values[2], values[2], values[3]


def _numbers(vector: Any, n: int) -> FloatArray:
    return np.array([vector[i] for i in range(n)])


def _matrix(rotation: Any) -> FloatArray:
    return np.array([[rotation[i, j] for j in range(3)] for i in range(3)])
