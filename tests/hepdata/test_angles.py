import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepdata.angles import delta_phi, wrap_phi

angles = st.floats(-50, 50, allow_nan=False)


@given(angles, st.sampled_from([np.float32, np.float64]))
def test_wrapped_angles_point_the_same_way(phi, dtype):
    phi = np.array([phi], dtype=dtype)
    wrapped = wrap_phi(phi)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    assert wrapped.dtype == dtype
    assert -dtype(np.pi) <= wrapped[0] < dtype(np.pi)
    assert np.cos(wrapped.astype(float)) == pytest.approx(np.cos(phi.astype(float)), abs=tolerance)
    assert np.sin(wrapped.astype(float)) == pytest.approx(np.sin(phi.astype(float)), abs=tolerance)


def test_pi_itself_becomes_minus_pi():
    assert wrap_phi(np.array([np.pi]))[0] == -np.pi
    # float32(π) is larger than π, so it wraps to just above −π.
    assert wrap_phi(np.array([np.float32(np.pi)]))[0] == np.nextafter(np.float32(-np.pi), np.float32(0))


def test_delta_phi_crosses_the_seam_the_short_way():
    assert delta_phi(np.array([-3.1]), np.array([3.1]))[0] == pytest.approx(2 * np.pi - 6.2)
    assert delta_phi(np.array([3.1]), np.array([-3.1]))[0] == pytest.approx(6.2 - 2 * np.pi)
