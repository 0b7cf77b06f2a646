"""Helices through the hits of tracks, in closed form: positions and track numbers enter, parameters leave.

In the transverse plane a circle by Karimäki's explicit formulas (Nucl. Instrum. Meth. A 305 (1991) 187),
along the beam a straight line in (s, z), where s is the length of the arc from the point nearest to the axis.
Every hit counts alike: its error is that of measurement and scattering, σ² = point² + (scattering / pT)².

Axes: A hits of tracks, M tracks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# pT in GeV = GEV_PER_TESLA_MM · field in T · radius in mm.
GEV_PER_TESLA_MM = 0.299792458e-3
FIELD = 2.0
# Fewest hits for the fit of a helix.
MIN_HITS = 3
# 1/mm, a radius of 10 km: below it an arc is computed as a straight line.
_STRAIGHT = 1e-7


@dataclass(frozen=True)
class HitError:
    """The error of a hit, perpendicular to the track.

    Attributes:
        point: Of the measurement, in mm.
        scattering: Of multiple scattering at 1 GeV, in mm; it falls with pT.

    Raises:
        ValueError: A number out of range.
    """

    point: float = 0.01
    scattering: float = 0.025

    def __post_init__(self) -> None:
        for name in ("point", "scattering"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be finite and not negative")
        if not self.point and not self.scattering:
            raise ValueError("point and scattering are both 0; one must be positive")

    def at(self, pt: FloatArray) -> FloatArray:
        """σ² in mm²."""
        # No particle below 50 MeV crosses three layers; the floor keeps the variance finite.
        return np.asarray(self.point**2 + (self.scattering / np.maximum(pt, 0.05)) ** 2)


@dataclass(frozen=True)
class Helices:
    """Fitted tracks; NaN where a track has fewer than three hits, or hits on one line with the axis.

    Attributes:
        n_hits: (M,).
        curvature: (M,) in 1/mm; positive charges, which turn clockwise seen against the field, are positive.
        phi: (M,) azimuth of the momentum where the helix is nearest to the beam axis.
        d0: (M,) signed distance from the axis there, in mm: that point is (d0 sin φ, −d0 cos φ).
        slope: (M,) dz/ds, sinh η.
        z0: (M,) z there, in mm.
        chi2: (M,) sum of squared residuals in units of their errors, in both planes.
        covariance: (M, 5, 5) of (curvature, phi, d0, slope, z0); None where it was not asked for.
    """

    n_hits: NDArray[np.int64]
    curvature: FloatArray
    phi: FloatArray
    d0: FloatArray
    slope: FloatArray
    z0: FloatArray
    chi2: FloatArray
    covariance: FloatArray | None = None

    @property
    def charge(self) -> NDArray[np.int64]:
        """(M,) sign of the charge, 0 where there is no fit."""
        return np.nan_to_num(np.sign(self.curvature)).astype(np.int64)

    def pt(self, field: float = FIELD) -> FloatArray:
        """(M,) in GeV, for a field in T."""
        with np.errstate(divide="ignore"):
            return np.asarray(GEV_PER_TESLA_MM * field / np.abs(self.curvature))

    @property
    def eta(self) -> FloatArray:
        """(M,) pseudorapidity."""
        return np.asarray(np.arcsinh(self.slope))

    @property
    def n_free(self) -> NDArray[np.signedinteger]:
        """(M,) degrees of freedom: two measurements a hit, five parameters."""
        return 2 * self.n_hits - 5

    @property
    def quality(self) -> FloatArray:
        """(M,) χ² per degree of freedom; infinite where there is no fit."""
        return np.where(np.isfinite(self.chi2), self.chi2 / np.maximum(self.n_free, 1), np.inf)


class _Sums:
    """Sums over the hits of each track."""

    def __init__(self, track: NDArray[np.integer], n_tracks: int) -> None:
        self.track, self.n = track, n_tracks
        self.count = np.bincount(track, minlength=n_tracks)

    def __call__(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.track, weights=values, minlength=self.n).astype(np.float64)

    def mean(self, values: FloatArray) -> FloatArray:
        return self(values) / np.maximum(self.count, 1)


def fit_helices(
    track: NDArray[np.integer],
    x: FloatArray,
    y: FloatArray,
    z: FloatArray,
    n_tracks: int,
    *,
    error: HitError | None = None,
    field: float = FIELD,
    with_covariance: bool = False,
) -> Helices:
    """Fit a helix to every track.

    Args:
        track: (A,) number of each hit's track, from 0.
        x: (A,) in mm.
        y: (A,).
        z: (A,) along field and beam.
        n_tracks: M.
        error: Of a hit.
        field: In T.
        with_covariance: Whether the errors of the parameters are wanted.
    """
    sums = _Sums(track, n_tracks)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        curvature, phi, d0, transverse = _fit_circles(sums, x, y)
        s = _walk(curvature[track], phi[track], d0[track], x, y)
        slope, z0, along = _fit_lines(sums, s, z)
        pt = GEV_PER_TESLA_MM * field / np.abs(curvature)
        variance = (error or HitError()).at(pt)
        # The distance of a hit from the line is measured across the track.
        tilt = 1 + slope**2
        chi2 = (transverse + along / tilt) / variance
        covariance = _covary(sums, s, variance, variance * tilt) if with_covariance else None
    bad = (sums.count < MIN_HITS) | ~np.isfinite(chi2)
    if covariance is not None:
        covariance[bad] = np.nan
    curvature, phi, d0, slope, z0, chi2 = (
        np.where(bad, np.nan, v) for v in (curvature, phi, d0, slope, z0, chi2)
    )
    return Helices(sums.count, curvature, phi, d0, slope, z0, chi2, covariance)


def _fit_circles(
    sums: _Sums, x: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Curvature, azimuth, distance from the axis, and the sum of squared residuals (M,)."""
    r2 = x**2 + y**2
    mx, my, mr2 = sums.mean(x), sums.mean(y), sums.mean(r2)
    # Deviations from the means first: sums of fourth powers of mm would cancel.
    dx, dy, dr2 = x - mx[sums.track], y - my[sums.track], r2 - mr2[sums.track]
    cxx, cxy, cyy = sums.mean(dx * dx), sums.mean(dx * dy), sums.mean(dy * dy)
    cxr, cyr, crr = sums.mean(dx * dr2), sums.mean(dy * dr2), sums.mean(dr2 * dr2)
    phi = 0.5 * np.arctan2(2 * (crr * cxy - cxr * cyr), crr * (cxx - cyy) - cxr**2 + cyr**2)
    # Of the two directions, take the outgoing one.
    phi = np.where(np.cos(phi) * mx + np.sin(phi) * my < 0, phi + np.pi, phi)
    phi = np.arctan2(np.sin(phi), np.cos(phi))
    sin, cos = np.sin(phi), np.cos(phi)
    kappa = (sin * cxr - cos * cyr) / crr
    delta = -kappa * mr2 + sin * mx - cos * my
    root = np.sqrt(np.maximum(1 - 4 * delta * kappa, 1e-12))
    curvature, d0 = 2 * kappa / root, 2 * delta / (1 + root)
    spread = sin**2 * cxx - 2 * sin * cos * cxy + cos**2 * cyy - kappa**2 * crr
    squares = sums.count * (1 + curvature * d0) ** 2 * np.maximum(spread, 0)
    return curvature, phi, d0, squares


def _walk(curvature: FloatArray, phi: FloatArray, d0: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """(A,) length of the arc from the point nearest to the axis to each hit."""
    from_x, from_y = x - d0 * np.sin(phi), y + d0 * np.cos(phi)
    chord = np.hypot(from_x, from_y) * np.sign(from_x * np.cos(phi) + from_y * np.sin(phi))
    half = np.clip(0.5 * curvature * chord, -1, 1)
    is_straight = np.abs(curvature) < _STRAIGHT
    arc = 2 * np.arcsin(half) / np.where(is_straight, 1.0, curvature)
    return np.where(is_straight, chord, arc)


def _fit_lines(sums: _Sums, s: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slope, z at s = 0, and the sum of squared residuals in z (M,)."""
    ms, mz = sums.mean(s), sums.mean(z)
    ds, dz = s - ms[sums.track], z - mz[sums.track]
    slope = sums(ds * dz) / sums(ds * ds)
    residual = dz - slope[sums.track] * ds
    return slope, mz - slope * ms, sums(residual**2)


def _covary(sums: _Sums, s: FloatArray, transverse: FloatArray, along: FloatArray) -> FloatArray:
    """(M, 5, 5) inverse of the normal equations, linear at the fitted parameters."""
    # What a hit at s measures: d0 − s φ + ½ s² curvature, and z0 + s slope.
    arms = (0.5 * s**2, -s, np.ones_like(s), s, np.ones_like(s))
    normal = np.zeros((sums.n, 5, 5))
    for block, variance in (((0, 1, 2), transverse), ((3, 4), along)):
        for i in block:
            for j in block:
                normal[:, i, j] = sums(arms[i] * arms[j]) / variance
    # In metres, the entries have similar magnitudes.
    scale = np.array([1e6, 1e3, 1.0, 1e3, 1.0])
    normal /= scale[:, None] * scale
    usable = np.isfinite(normal).all((1, 2)) & (sums.count >= MIN_HITS)
    normal[~usable] = np.eye(5)
    covariance = np.linalg.pinv(normal, hermitian=True)
    return np.asarray(covariance / (scale[:, None] * scale))


def find_perigee(
    position: FloatArray,
    px: FloatArray,
    py: FloatArray,
    slope: FloatArray,
    charge: FloatArray,
    *,
    field: float = FIELD,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """φ, d0 and z0 (M,) where particles' helices are nearest to the beam axis, in the signs of `Helices`.

    Args:
        position: (M, 3) where a particle begins, in mm.
        px: (M,) momentum there, in GeV.
        py: (M,).
        slope: (M,) pz / pT.
        charge: (M,) in e; without one, the path is a straight line.
        field: In T.
    """
    x, y, z = position.T
    pt, phi = np.hypot(px, py), np.arctan2(py, px)
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = pt / (GEV_PER_TESLA_MM * field * charge)  # positive charges turn clockwise
        side = np.sign(radius)
        from_axis = side * np.stack([x + radius * np.sin(phi), y - radius * np.cos(phi)])
        on_circle = np.arctan2(from_axis[0], -from_axis[1])
        turned = np.arctan2(np.sin(on_circle - phi), np.cos(on_circle - phi))
        is_straight = charge == 0
        along = np.where(is_straight, x * np.cos(phi) + y * np.sin(phi), radius * turned)
        d0 = np.where(is_straight, x * np.sin(phi) - y * np.cos(phi), side * np.hypot(*from_axis) - radius)
    return np.where(is_straight, phi, on_circle), d0, z - slope * along


def measure_distances(
    helices: Helices, track: NDArray[np.integer], x: FloatArray, y: FloatArray, z: FloatArray
) -> FloatArray:
    """(A,) squared distance of hits from helices in mm²: across the circle and the line in (s, z)."""
    curvature, phi, d0 = helices.curvature[track], helices.phi[track], helices.d0[track]
    sin, cos = np.sin(phi), np.cos(phi)
    across = 0.5 * curvature * (x**2 + y**2 + d0**2) - (1 + curvature * d0) * (x * sin - y * cos) + d0
    slope = helices.slope[track]
    along = z - helices.z0[track] - slope * _walk(curvature, phi, d0, x, y)
    return np.asarray(across**2 + along**2 / (1 + slope**2))
