"""Helices in a field along z, and where they meet the planes of modules, in closed form.

A helix is a point, the azimuth `phi` of its momentum there, the slope dz/ds and the turn rate ω = dφ/ds,
where s is the length walked in the transverse plane (mm):

    x(s) = x + (sin(φ+ωs) − sin φ)/ω,   y(s) = y − (cos(φ+ωs) − cos φ)/ω,   z(s) = z + s · slope.

Only the first half turn after the starting point is looked at. Axes: K helices, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hepdata.angles import wrap_phi

from .detector import FloatArray, IntArray

# transverse momentum (GeV) = GEV_PER_TESLA_MM · field (T) · radius (mm)
GEV_PER_TESLA_MM = 0.299792458e-3


@dataclass(frozen=True)
class Helices:
    """K helices, each at its present point.

    Attributes:
        position: (K, 3) in mm.
        phi: (K,) azimuth of the momentum.
        slope: (K,) dz/ds = pz/pt.
        omega: (K,) turn rate in 1/mm; positive charges turn clockwise, seen against the field.
        pt: (K,) in GeV.
    """

    position: FloatArray
    phi: FloatArray
    slope: FloatArray
    omega: FloatArray
    pt: FloatArray

    def __getitem__(self, rows: IntArray) -> Helices:
        return Helices(self.position[rows], self.phi[rows], self.slope[rows], self.omega[rows], self.pt[rows])

    def walk(self, s: FloatArray) -> Helices:
        """The same helices, `s` further on."""
        turned = self.phi + self.omega * s
        step = np.stack(
            [
                (np.sin(turned) - np.sin(self.phi)) / self.omega,
                (np.cos(self.phi) - np.cos(turned)) / self.omega,
                self.slope * s,
            ],
            axis=1,
        )
        return Helices(self.position + step, turned, self.slope, self.omega, self.pt)

    def momentum(self) -> FloatArray:
        """Momenta (K, 3) in GeV."""
        return np.stack(
            [self.pt * np.cos(self.phi), self.pt * np.sin(self.phi), self.pt * self.slope], axis=1
        )


def launch(position: FloatArray, momentum: FloatArray, charge: IntArray, field: float) -> Helices:
    """Helices of charged particles at `position` (K, 3) with `momentum` (K, 3)."""
    pt = np.hypot(momentum[:, 0], momentum[:, 1])
    return Helices(
        position=position,
        phi=np.arctan2(momentum[:, 1], momentum[:, 0]),
        slope=momentum[:, 2] / pt,
        omega=-charge * GEV_PER_TESLA_MM * field / pt,
        pt=pt,
    )


def azimuth_at_cylinder(helices: Helices, radius: float) -> FloatArray:
    """Azimuth at which each helix leaves the cylinder (K,); NaN where it never reaches it.

    The helix's circle has its centre at distance D from the beam; by the law of cosines the two crossings lie
    at ±β from the centre's azimuth, and a counterclockwise particle goes outwards at the smaller azimuth.
    """
    x, y = helices.position[:, 0], helices.position[:, 1]
    to_centre_x, to_centre_y = -np.sin(helices.phi) / helices.omega, np.cos(helices.phi) / helices.omega
    centre_x, centre_y = x + to_centre_x, y + to_centre_y
    distance = np.hypot(centre_x, centre_y)
    # D² − ρ² written without its large terms, which cancel for stiff tracks
    excess = x * x + y * y + 2 * (x * to_centre_x + y * to_centre_y)
    with np.errstate(invalid="ignore", divide="ignore"):
        beta = np.arccos((radius * radius + excess) / (2 * radius * distance))
    azimuth: FloatArray = np.arctan2(centre_y, centre_x) - np.sign(helices.omega) * beta
    return azimuth


def length_to_upright_plane(
    helices: Helices, normal_azimuth: FloatArray, point_x: FloatArray, point_y: FloatArray
) -> FloatArray:
    """Length s at which each helix crosses a plane that contains the beam's direction, along its normal.

    With the normal at azimuth α, the condition is sin(φ(s)−α) = sin(φ−α) + ω·distance: φ(s) is an arcsine.

    Args:
        helices: K of them; the other arguments are (K, C) candidates.
        normal_azimuth: α.
        point_x: A point on the plane.
        point_y: Its other coordinate.

    Returns:
        (K, C), NaN where there is no such crossing ahead within half a turn.
    """
    omega = helices.omega[:, None]
    distance = (point_x - helices.position[:, 0, None]) * np.cos(normal_azimuth) + (
        point_y - helices.position[:, 1, None]
    ) * np.sin(normal_azimuth)
    start = wrap_phi(helices.phi[:, None] - normal_azimuth)
    with np.errstate(invalid="ignore"):
        end = np.arcsin(np.sin(start) + omega * distance)
    return _keep_first_half_turn((end - start) / omega, omega)


def length_to_disc(helices: Helices, z: FloatArray) -> FloatArray:
    """Length s at which each helix crosses the plane at `z` (K, C); NaN if not ahead in half a turn."""
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (z - helices.position[:, 2, None]) / helices.slope[:, None]
    return _keep_first_half_turn(s, helices.omega[:, None])


def deflect(helices: Helices, along_phi: FloatArray, along_theta: FloatArray) -> Helices:
    """Turn each direction by two small angles at right angles to it, keeping |p|."""
    p = helices.pt * np.sqrt(1 + helices.slope**2)
    # A sideways angle a moves the azimuth by a / sin θ.
    phi = helices.phi + along_phi * p / helices.pt
    theta = np.arctan2(1.0, helices.slope) + along_theta
    theta = np.clip(theta, 1e-3, np.pi - 1e-3)
    pt = p * np.sin(theta)
    return Helices(helices.position, phi, 1 / np.tan(theta), helices.omega * helices.pt / pt, pt)


def _keep_first_half_turn(s: FloatArray, omega: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        kept: FloatArray = np.where((s > 0) & (np.abs(omega) * s < np.pi), s, np.nan)
    return kept
