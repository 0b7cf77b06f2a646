"""Compute quantities that a Delphes card does not write: momentum components, energy, rapidity.

Mass rule, in this order: the leaf `Mass`; the mass of the particle with this PID; the pion mass for other
charged particles; 0 for other neutral ones (a calorimeter measures them as massless).

Axes: P particles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hepdata.masses import mass_of

MASS_RULE = "Mass leaf; else mass of |PID|; else pion for charged, 0 for neutral"
_PION = 211


def complete_kinematics(raw: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All quantities of a particle from those that a branch has.

    Quantities of the file are kept, except rapidities that are not finite: along the beam E and p_z are
    equal in single precision.

    Args:
        raw: pt, eta, phi, charge, pid, and any of px, py, energy, rapidity, mass.

    Returns:
        pt, eta, phi, px, py, energy, rapidity as float32, charge and pid as int32.
    """
    out: dict[str, NDArray[Any]] = {
        name: np.asarray(raw[name], dtype=np.float32) for name in ("pt", "eta", "phi")
    }
    out["charge"], out["pid"] = (np.asarray(raw[name], dtype=np.int32) for name in ("charge", "pid"))
    # Particles along the beam (η = ±999.9) overflow here and are cut later.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for name, component in (("px", np.cos), ("py", np.sin)):
            out[name] = raw[name] if name in raw else out["pt"] * component(out["phi"])
        if "energy" in raw:
            out["energy"] = raw["energy"]
        else:
            momentum = out["pt"].astype(np.float64) * np.cosh(out["eta"].astype(np.float64))
            out["energy"] = np.hypot(momentum, find_mass(raw))
        if "rapidity" in raw:
            lost = np.flatnonzero(~np.isfinite(raw["rapidity"]))
            out["rapidity"] = np.array(raw["rapidity"], dtype=np.float32)
            out["rapidity"][lost] = find_rapidity({name: values[lost] for name, values in raw.items()})
        else:
            out["rapidity"] = find_rapidity(raw)
    for name in ("px", "py", "energy", "rapidity"):
        out[name] = np.asarray(out[name], dtype=np.float32)
    return out


def find_measured(raw: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """What a detector measures beside momenta, where the branch has it: d0, dz and em_fraction.

    Particles without a value have 0: neutral ones without a track, charged ones without energy.
    """
    found = {name: np.asarray(raw[name], dtype=np.float32) for name in ("d0", "dz") if name in raw}
    if "em_energy" in raw and "had_energy" in raw:
        electromagnetic = np.asarray(raw["em_energy"], dtype=np.float32)
        total = electromagnetic + np.asarray(raw["had_energy"], dtype=np.float32)
        fraction = np.zeros(len(total), dtype=np.float32)
        found["em_fraction"] = np.divide(electromagnetic, total, out=fraction, where=total > 0)
    return {name: np.where(np.isfinite(values), values, np.float32(0)) for name, values in found.items()}


def find_mass(raw: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """(P,) GeV, by the mass rule."""
    if "mass" in raw:
        # Rounding in single precision: some massless particles are written with −10⁻⁴.
        return np.maximum(raw["mass"].astype(np.float64), 0.0)
    codes = pa.array(np.abs(raw["pid"])).dictionary_encode()
    # Unknown masses become NaN.
    masses = np.array([*map(mass_of, codes.dictionary.to_pylist()), mass_of(_PION)], dtype=np.float64)
    mass = masses[codes.indices.to_numpy()]
    return np.where(np.isnan(mass), np.where(raw["charge"] != 0, masses[-1], 0.0), mass)


def find_rapidity(raw: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """(P,) y = asinh(p_z / m_T), without the cancellation of ½ ln((E + p_z)/(E − p_z))."""
    pt, eta = raw["pt"].astype(np.float64), raw["eta"].astype(np.float64)
    return np.arcsinh(pt * np.sinh(eta) / np.hypot(pt, find_mass(raw)))
