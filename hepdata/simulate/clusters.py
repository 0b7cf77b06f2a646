"""Clusters of cells: the charge that a track leaves along its way through the silicon, cell by cell.

In: where and in which direction modules are crossed. Out: `Cells`, and the centre of charge of every cluster,
which is the measured position: its resolution follows from the pitch. The charge of a cell is the length of
track in it (mm of silicon) times a fluctuation with a long tail, and a cluster's extent along u and v is
about 1 + depth·|tan of the crossing angle|/pitch. Axes: n clusters, N cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .detector import FloatArray, IntArray, ModuleTable

FLUCTUATION = 0.043  # scale of the energy loss in one cell: a standard deviation of about a tenth
CELL_NOISE, THRESHOLD = 0.003, 0.008  # mm of silicon
MAX_TANGENT = 60.0  # of the crossing angle: grazing tracks leave the sensor sideways
NOISE_CHARGE = 0.12
NOISE_NEIGHBOURS = 0.3  # mean number of further cells along each axis


@dataclass(frozen=True)
class Cells:
    """Cells above threshold, cluster by cluster.

    Attributes:
        cluster: (N,) row of the cluster, ascending.
        ch0: (N,) cell number along u.
        ch1: (N,) cell number along v.
        value: (N,) charge.
    """

    cluster: IntArray
    ch0: IntArray
    ch1: IntArray
    value: FloatArray


@dataclass(frozen=True)
class Grid:
    """The cells of the modules of n clusters: numbers count from the corner (−origin_u, −origin_v).

    Attributes:
        pitch: (n, 2) cell size along u and v.
        origin: (n, 2) half sizes.
        size: (n, 2) cells along u and v.
    """

    pitch: FloatArray
    origin: FloatArray
    size: IntArray


def make_grid(table: ModuleTable, modules: IntArray) -> Grid:
    """The cells of the modules at rows `modules`."""
    pitch = table.pitch[modules]
    origin = np.stack([table.max_half_u[modules], table.half_v[modules]], axis=1)
    return Grid(pitch, origin, np.ceil(2 * origin / pitch - 1e-9).astype(np.int64))


def ionise(
    grid: Grid, middle: FloatArray, tangent: FloatArray, depth: FloatArray, rng: np.random.Generator
) -> Cells:
    """Share the charge of tracks among the cells under them.

    Args:
        grid: Cells of the modules crossed.
        middle: (n, 2) crossing of the module's middle plane, (u, v).
        tangent: (n, 2) du/dw and dv/dw.
        depth: (n,) silicon that collects charge, half on either side of the middle plane.
        rng: Draws the fluctuations.
    """
    tangent = np.clip(tangent, -MAX_TANGENT, MAX_TANGENT)
    # In units of cells: the track enters at `start` and leaves at `start + span`.
    span = depth[:, None] * tangent / grid.pitch
    start = (middle + grid.origin) / grid.pitch - span / 2
    cluster, at = _cut_at_cell_edges(start, span)
    begins = np.flatnonzero(at == 0.0)
    end = np.append(at[1:], 1.0)
    end[begins[1:] - 1] = 1.0
    cell = np.floor(start[cluster] + span[cluster] * ((at + end) / 2)[:, None]).astype(np.int64)
    length = depth * np.sqrt(1 + (tangent**2).sum(axis=1))
    charge = length[cluster] * (end - at) * _draw_losses(len(at), rng) + rng.normal(0, CELL_NOISE, len(at))
    on_module = ((cell >= 0) & (cell < grid.size[cluster])).all(axis=1)
    return _apply_threshold(cluster, cell, np.where(on_module, charge, -np.inf), len(span))


def make_noise(grid: Grid, middle: FloatArray, rng: np.random.Generator) -> Cells:
    """Small clusters without a track: a few neighbouring cells with little charge around `middle` (n, 2)."""
    n = len(middle)
    extent = 1 + rng.poisson(NOISE_NEIGHBOURS, (n, 2))
    first = np.floor((middle + grid.origin) / grid.pitch).astype(np.int64)
    first = np.clip(first, 0, grid.size - extent)
    # A staircase from the first cell to the opposite corner: one step along one axis at a time.
    n_cells = extent.sum(axis=1) - 1
    cluster = np.repeat(np.arange(n), n_cells)
    step = np.arange(len(cluster)) - np.repeat(np.cumsum(n_cells) - n_cells, n_cells)
    along_u = np.minimum(step, extent[cluster, 0] - 1)
    cell = first[cluster] + np.stack([along_u, step - along_u], axis=1)
    charge = THRESHOLD + rng.exponential(NOISE_CHARGE, len(cluster)) / n_cells[cluster]
    return Cells(cluster, cell[:, 0], cell[:, 1], charge)


def find_centres(cells: Cells, grid: Grid) -> FloatArray:
    """Centres of charge (n, 2) of all clusters, in (u, v)."""
    n = len(grid.origin)
    total = np.bincount(cells.cluster, cells.value, n)
    centre = [
        np.bincount(cells.cluster, cells.value * (channel + 0.5), n) / total
        for channel in (cells.ch0, cells.ch1)
    ]
    points: FloatArray = np.stack(centre, axis=1) * grid.pitch - grid.origin
    return points


def _cut_at_cell_edges(start: FloatArray, span: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cut every track at the cell edges it crosses.

    Returns:
        For each piece its track and where it begins, as a share of the track; tracks and shares ascending.
    """
    n = len(start)
    tracks: list[IntArray] = [np.arange(n)]
    shares: list[FloatArray] = [np.zeros(n)]
    for axis in range(2):
        a, b = start[:, axis], start[:, axis] + span[:, axis]
        low = np.floor(np.minimum(a, b)).astype(np.int64)
        n_edges = np.floor(np.maximum(a, b)).astype(np.int64) - low
        track = np.repeat(np.arange(n), n_edges)
        edge = low[track] + 1 + np.arange(len(track)) - np.repeat(np.cumsum(n_edges) - n_edges, n_edges)
        tracks.append(track)
        shares.append(np.clip((edge - a[track]) / span[track, axis], np.finfo(float).tiny, 1.0))
    track, share = np.concatenate(tracks), np.concatenate(shares)
    order = np.argsort(track + np.minimum(share, 1 - 1e-9), kind="stable")
    return track[order], share[order]


def _draw_losses(n: int, rng: np.random.Generator) -> FloatArray:
    """Factors around 1 with a long tail, after Moyal's form of Landau's law (−ln of a squared normal)."""
    moyal = -np.log(rng.standard_normal(n) ** 2)
    losses: FloatArray = np.maximum(0.3, 1 + FLUCTUATION * (np.minimum(moyal, 12.0) - 1.27))
    return losses


def _apply_threshold(cluster: IntArray, cell: IntArray, charge: FloatArray, n: int) -> Cells:
    """Drop cells below threshold, but never a cluster's largest."""
    largest = np.full(n, -np.inf)
    np.maximum.at(largest, cluster, charge)
    kept: NDArray[np.bool_] = (charge >= THRESHOLD) | ((charge == largest[cluster]) & np.isfinite(charge))
    return Cells(cluster[kept], cell[kept, 0], cell[kept, 1], np.maximum(charge[kept], THRESHOLD))
