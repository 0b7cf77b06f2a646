"""Computed quantities against the vector package, and the mass rule by hand."""

import numpy as np
import pytest
import vector

from hepdata.masses import mass_of
from hepdata.readers.delphes_kinematics import complete_kinematics, find_mass

# GeV, rounded
MASSES = {211: 0.13957, 321: 0.49368, 22: 0.0, 130: 0.49761, 2112: 0.93957, 2212: 0.93827}


@pytest.fixture
def raw():
    rng = np.random.default_rng(1)
    n = 500
    pid = rng.choice([211, -321, 22, 130, 2112, -2212], n).astype(np.int32)
    return {
        "pt": rng.gamma(2, 0.5, n).astype(np.float32),
        "eta": rng.uniform(-6, 6, n).astype(np.float32),
        "phi": rng.uniform(-np.pi, np.pi, n).astype(np.float32),
        "pid": pid,
        "charge": np.where(np.isin(np.abs(pid), (211, 321, 2212)), np.sign(pid), 0).astype(np.int32),
    }


def as_vectors(raw):
    mass = np.array([MASSES[abs(code)] for code in raw["pid"]])
    return vector.array({**{name: raw[name].astype(float) for name in ("pt", "eta", "phi")}, "mass": mass})


def test_all_computed_as_vector_does(raw):
    out, oracle = complete_kinematics(raw), as_vectors(raw)
    np.testing.assert_allclose(out["px"], oracle.px, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["py"], oracle.py, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["energy"], oracle.E, rtol=1e-5)
    np.testing.assert_allclose(out["rapidity"], oracle.rapidity, rtol=1e-5, atol=1e-6)


def test_closure(raw):
    out = complete_kinematics(raw)
    np.testing.assert_allclose(np.hypot(out["px"], out["py"]), out["pt"], rtol=1e-6)
    momentum = out["pt"].astype(float) * np.cosh(out["eta"].astype(float))
    assert np.all(out["energy"] >= momentum * (1 - 1e-6))
    assert np.all(np.abs(out["rapidity"]) <= np.abs(out["eta"]) + 1e-5)


def test_massless_rapidity_is_pseudorapidity(raw):
    photons = {**raw, "pid": np.full(500, 22, np.int32), "charge": np.zeros(500, np.int32)}
    np.testing.assert_allclose(complete_kinematics(photons)["rapidity"], raw["eta"], rtol=1e-5, atol=1e-6)


def test_what_is_written_is_kept(raw):
    written = {
        name: np.full(500, value, np.float32)
        for name, value in (("px", 1.0), ("py", 2.0), ("energy", 3.0), ("rapidity", 0.5))
    }
    out = complete_kinematics({**raw, **written})
    for name, values in written.items():
        np.testing.assert_array_equal(out[name], values)


def test_lost_rapidity_is_computed_the_others_kept(raw):
    rapidity = np.full(500, 0.25, np.float32)
    rapidity[3], rapidity[7] = np.nan, np.inf
    out = complete_kinematics({**raw, "rapidity": rapidity})["rapidity"]
    np.testing.assert_allclose(out[[3, 7]], as_vectors(raw).rapidity[[3, 7]], rtol=1e-5)
    assert out[0] == np.float32(0.25)
    assert np.isnan(rapidity[3])


def test_mass_rule():
    raw = {
        "pid": np.array([211, 9999, 9999, 0, 2112], np.int32),
        "charge": np.array([1, -1, 0, 0, 0], np.int32),
    }
    np.testing.assert_allclose(find_mass(raw), [0.13957, 0.13957, 0, 0, 0.93957], rtol=1e-5)
    np.testing.assert_allclose(
        find_mass({**raw, "mass": np.array([1, 2, 3, -1e-4, 0], np.float32)}), [1, 2, 3, 0, 0]
    )


def test_particles_along_the_beam_do_not_warn():
    raw = {
        "pt": np.zeros(2, np.float32),
        "eta": np.array([999.9, -999.9], np.float32),
        "phi": np.zeros(2, np.float32),
        "pid": np.array([2212, 22], np.int32),
        "charge": np.array([1, 0], np.int32),
    }
    with np.errstate(all="raise"):
        assert len(complete_kinematics(raw)["energy"]) == 2


def test_masses_are_in_gev_and_unknown_ones_none():
    assert mass_of(3334) == mass_of(-3334) == pytest.approx(1.67245, rel=1e-4)
    assert mass_of(22) == 0
    # No code, a code that means nothing, and a neutrino.
    assert [mass_of(code) for code in (0, 999999999, 12)] == [None, None, None]
