"""The simulated pixel detector: four barrel layers and seven discs on each side.

In: a `Layout`, the few numbers of the design. Out: a `Detector`, whose `ModuleTable` holds every module's
place, rotation and bounds, as the rows of `detectors.csv`. Volumes and layers are numbered as in the TrackML
challenge (barrel 8; endcaps 7 at negative and 9 at positive z; even layers). Lengths in mm.

A module's frame is (u, v, w), w its normal: barrel modules have v along the beam and w outwards, leaning by
`tilt` like the blades of a turbine; endcap modules have v outwards and w away from the detector's centre.
Axes: M modules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BARREL_VOLUME = 8
BACKWARD_VOLUME, FORWARD_VOLUME = 7, 9


@dataclass(frozen=True)
class Layout:
    """The design, in mm, tesla and radians.

    Attributes:
        field: Magnetic field along +z.
        pitch_u: Cell size along u.
        pitch_v: Cell size along v.
        half_thickness: Half of a module's thickness (what `module_t` of a TrackML file is).
        barrel_depth: Silicon that collects charge in the barrel: half the thickness, as in real clusters.
        endcap_depth: The same in endcap modules.
        radii: Barrel layers.
        half_u: Half width of a barrel module.
        half_v: Half length of every module.
        n_rings: Barrel modules along z.
        tilt: Lean of the barrel modules.
        disc_z: Distances of the discs from the centre.
        ring_radii: Middle radii of the two rings of modules on a disc.
        ring_slots: Modules in each of those rings (even: neighbours sit on opposite faces of the disc).
        overlap: Share by which neighbours around the beam overlap.
        overlap_z: Share by which neighbours along the beam overlap.
        stagger: Half distance between neighbours in depth, so that overlapping modules do not collide.
        radiation_length: Thickness of one layer, support and services included, in radiation lengths.
    """

    field: float = 2.0
    pitch_u: float = 0.05
    pitch_v: float = 0.06
    half_thickness: float = 0.15
    barrel_depth: float = 0.15
    endcap_depth: float = 0.3
    radii: tuple[float, ...] = (33.0, 72.0, 114.0, 168.0)
    half_u: float = 8.0
    half_v: float = 36.0
    n_rings: int = 14
    tilt: float = 0.16
    disc_z: tuple[float, ...] = (610.0, 700.0, 810.0, 940.0, 1090.0, 1270.0, 1480.0)
    ring_radii: tuple[float, float] = (65.0, 135.0)
    ring_slots: tuple[int, int] = (24, 40)
    overlap: float = 0.2
    overlap_z: float = 0.04
    stagger: float = 0.6
    radiation_length: float = 0.02


@dataclass(frozen=True)
class ModuleTable:
    """All modules, in (volume, layer, module) order.

    Attributes:
        volume_id: (M,).
        layer_id: (M,).
        module_id: (M,), from 1 in every layer.
        centre: (M, 3).
        rotation: (M, 3, 3): columns are the directions of u, v, w in the detector's frame.
        min_half_u: (M,) half width at −half_v.
        max_half_u: (M,) half width at +half_v.
        half_v: (M,).
        depth: (M,) silicon that collects charge.
        half_thickness: (M,).
        pitch: (M, 2) cell size along u and v.
        is_digital: (M,) whether cells are read out as hit or not hit, value 1.
    """

    volume_id: IntArray
    layer_id: IntArray
    module_id: IntArray
    centre: FloatArray
    rotation: FloatArray
    min_half_u: FloatArray
    max_half_u: FloatArray
    half_v: FloatArray
    depth: FloatArray
    half_thickness: FloatArray
    pitch: FloatArray
    is_digital: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.volume_id)

    def half_u_at(self, rows: IntArray, v: FloatArray) -> FloatArray:
        """Half width of the modules `rows` at the height `v`: they may be trapezoids."""
        low, high = self.min_half_u[rows], self.max_half_u[rows]
        half: FloatArray = low + (high - low) * (v / self.half_v[rows] + 1) / 2
        return half

    def to_local(self, rows: IntArray, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(u, v) of points (n, 3) on the modules `rows`."""
        offset = position - self.centre[rows]
        axes = self.rotation[rows]
        return (offset * axes[:, :, 0]).sum(axis=1), (offset * axes[:, :, 1]).sum(axis=1)

    def to_global(self, rows: IntArray, u: FloatArray, v: FloatArray) -> FloatArray:
        """Points (n, 3) at (u, v) on the modules `rows`."""
        axes = self.rotation[rows]
        points: FloatArray = self.centre[rows] + axes[:, :, 0] * u[:, None] + axes[:, :, 1] * v[:, None]
        return points


@dataclass(frozen=True)
class BarrelLayer:
    """One cylinder of modules: row = first_row + ring · n_slots + slot."""

    first_row: int
    radius: float
    n_slots: int


@dataclass(frozen=True)
class DiscRing:
    """One ring of modules on a disc, seen from the centre: row = first_row + slot; even slots sit nearer."""

    first_row: int
    z: float
    n_slots: int


@dataclass(frozen=True)
class Detector:
    """A layout and its modules.

    Attributes:
        layout: The numbers of the design.
        modules: Every module.
        barrel: Cylinders, inside out.
        discs: For each disc from the centre outwards, its rings; first index 0 = negative z, 1 = positive z.
    """

    layout: Layout
    modules: ModuleTable
    barrel: tuple[BarrelLayer, ...]
    discs: tuple[tuple[tuple[DiscRing, ...], ...], tuple[tuple[DiscRing, ...], ...]]

    def ring_positions(self) -> tuple[FloatArray, FloatArray]:
        """The middle z of the barrel's rings of modules, and how far each is shifted in radius."""
        layout = self.layout
        step = 2 * layout.half_v * (1 - layout.overlap_z)
        ring = np.arange(layout.n_rings, dtype=np.float64)
        shift: FloatArray = np.where(ring % 2 == 0, layout.stagger, -layout.stagger)
        return (ring - (layout.n_rings - 1) / 2) * step, shift


def build_detector(layout: Layout | None = None) -> Detector:
    """Place every module of a layout."""
    layout = layout or Layout()
    tables: list[ModuleTable] = []
    backward = _place_endcap(layout, -1, tables)
    empty = Detector(layout, tables[0], (), ((), ()))
    barrel = _place_barrel(layout, *empty.ring_positions(), tables)
    forward = _place_endcap(layout, 1, tables)
    modules = ModuleTable(
        *(
            np.concatenate([getattr(table, name) for table in tables])
            for name in ModuleTable.__dataclass_fields__
        )
    )
    return Detector(layout, modules, barrel, (backward, forward))


def slot_azimuths(n_slots: int) -> FloatArray:
    """Azimuth of the middle of every slot of a ring of modules, in (−π, π]."""
    azimuths: FloatArray = -np.pi + 2 * np.pi * (np.arange(n_slots) + 0.5) / n_slots
    return azimuths


def _place_barrel(
    layout: Layout, ring_z: FloatArray, shift: FloatArray, tables: list[ModuleTable]
) -> tuple[BarrelLayer, ...]:
    layers = []
    for index, radius in enumerate(layout.radii):
        width = layout.half_u * math.cos(layout.tilt)
        n_slots = math.ceil(math.pi * radius * (1 + layout.overlap) / width)
        azimuth = np.tile(slot_azimuths(n_slots), layout.n_rings)
        r = radius + np.repeat(shift, n_slots)
        centre = np.stack([r * np.cos(azimuth), r * np.sin(azimuth), np.repeat(ring_z, n_slots)], axis=1)
        normal = azimuth + layout.tilt
        zero, one = np.zeros_like(normal), np.ones_like(normal)
        rotation = _stack_axes(
            (-np.sin(normal), np.cos(normal), zero),
            (zero, zero, one),
            (np.cos(normal), np.sin(normal), zero),
        )
        layers.append(BarrelLayer(_count(tables), radius, n_slots))
        half_u = np.full(len(centre), layout.half_u)
        tables.append(_table(layout, BARREL_VOLUME, 2 * (index + 1), centre, rotation, half_u, half_u))
    return tuple(layers)


def _place_endcap(layout: Layout, side: int, tables: list[ModuleTable]) -> tuple[tuple[DiscRing, ...], ...]:
    n_discs = len(layout.disc_z)
    discs: dict[int, tuple[DiscRing, ...]] = {}
    # Layers are numbered along z, which at negative z means from the farthest disc inwards.
    for number, index in enumerate(range(n_discs) if side > 0 else reversed(range(n_discs))):
        volume = FORWARD_VOLUME if side > 0 else BACKWARD_VOLUME
        first = _count(tables)
        parts = [_place_ring(layout, side, layout.disc_z[index], ring) for ring in range(2)]
        starts = (first, first + layout.ring_slots[0])
        discs[index] = tuple(
            DiscRing(start, side * _ring_depth(layout, layout.disc_z[index], ring), layout.ring_slots[ring])
            for ring, start in enumerate(starts)
        )
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        tables.append(_table(layout, volume, 2 * (number + 1), *columns))
    return tuple(discs[index] for index in range(n_discs))


def _place_ring(
    layout: Layout, side: int, disc_z: float, ring: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Centres, rotations and half widths at the inner and outer end of one ring's wedges."""
    n_slots, radius = layout.ring_slots[ring], layout.ring_radii[ring]
    azimuth = slot_azimuths(n_slots)
    cos, sin, zero, one = np.cos(azimuth), np.sin(azimuth), np.zeros(n_slots), np.ones(n_slots)
    depth = _ring_depth(layout, disc_z, ring) + np.where(
        np.arange(n_slots) % 2 == 0, -layout.stagger, layout.stagger
    )
    centre = np.stack([radius * cos, radius * sin, side * depth], axis=1)
    rotation = _stack_axes((side * sin, -side * cos, zero), (cos, sin, zero), (zero, zero, side * one))
    widths = [
        one * (radius + sign * layout.half_v) * math.tan(math.pi / n_slots) * (1 + layout.overlap)
        for sign in (-1, 1)
    ]
    return centre, rotation, widths[0], widths[1]


def _ring_depth(layout: Layout, disc_z: float, ring: int) -> float:
    return disc_z + (2 * ring - 1) * 2 * layout.stagger


def _stack_axes(*axes: tuple[FloatArray, FloatArray, FloatArray]) -> FloatArray:
    return np.stack([np.stack(axis, axis=1) for axis in axes], axis=2)


def _count(tables: list[ModuleTable]) -> int:
    return sum(len(table) for table in tables)


def _table(
    layout: Layout,
    volume: int,
    layer: int,
    centre: FloatArray,
    rotation: FloatArray,
    min_half_u: FloatArray,
    max_half_u: FloatArray,
) -> ModuleTable:
    n = len(centre)
    return ModuleTable(
        np.full(n, volume),
        np.full(n, layer),
        np.arange(1, n + 1),
        centre,
        rotation,
        min_half_u,
        max_half_u,
        np.full(n, layout.half_v),
        np.full(n, layout.barrel_depth if volume == BARREL_VOLUME else layout.endcap_depth),
        np.full(n, layout.half_thickness),
        np.tile([layout.pitch_u, layout.pitch_v], (n, 1)),
        np.zeros(n, dtype=np.bool_),
    )
