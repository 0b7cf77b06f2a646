import numpy as np
import pytest
import vector
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.errors import InputError
from hepdata.features.hits import locate_hits, pseudorapidity

coordinate = st.floats(-3000, 3000, allow_nan=False).filter(lambda value: abs(value) > 0.01)


def hits_at(x, y, z):
    arrays = {"x": x, "y": y, "z": z}
    hits = {name: np.array(values, dtype=np.float64) for name, values in arrays.items()}
    return hits | {"hit_id": np.arange(1, len(x) + 1)}


@given(x=coordinate, y=coordinate, z=coordinate)
@settings(max_examples=50)
def test_positions_agree_with_an_independent_package(x, y, z):
    located = locate_hits(hits_at([x], [y], [z]), "event 1")
    other = vector.obj(x=x, y=y, z=z)
    assert located["r"][0] == pytest.approx(other.rho, rel=1e-12)
    assert located["phi"][0] == pytest.approx(other.phi, rel=1e-9, abs=1e-12)
    assert located["eta"][0] == pytest.approx(other.eta, rel=1e-9, abs=1e-12)


def test_conformal_coordinates_by_hand():
    located = locate_hits(hits_at([3.0], [4.0], [0.0]), "event 1")
    assert located["u"][0] == pytest.approx(3 / 25)
    assert located["v"][0] == pytest.approx(4 / 25)
    assert located["eta"][0] == 0.0


def test_phi_of_the_negative_x_axis_is_in_the_half_open_interval():
    located = locate_hits(hits_at([-5.0, -5.0], [0.0, -0.0], [1.0, 1.0]), "event 1")
    assert located["phi"].tolist() == [-np.pi, -np.pi]


def test_a_hit_on_the_beam_axis_is_named():
    with pytest.raises(InputError, match=r"event 7: found hit 2 on the beam axis \(x = 0.0, y = 0.0\)"):
        locate_hits(hits_at([30.0, 0.0], [1.0, 0.0], [5.0, 5.0]), "event 7")


def test_pseudorapidity_is_minus_log_tan_of_half_the_polar_angle():
    theta = np.array([0.001, 0.3, 1.2, 2.9])
    assert np.allclose(pseudorapidity(np.sin(theta), np.cos(theta)), -np.log(np.tan(theta / 2)), rtol=1e-10)
