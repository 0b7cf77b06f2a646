import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hepdata.simulate.helix import (
    GEV_PER_TESLA_MM,
    azimuth_at_cylinder,
    deflect,
    launch,
    length_to_disc,
    length_to_upright_plane,
)

FIELD = 2.0


def draw_helices(seed: int, n: int = 200):
    rng = np.random.default_rng(seed)
    pt, phi, eta = rng.uniform(0.12, 5, n), rng.uniform(-np.pi, np.pi, n), rng.uniform(-3, 3, n)
    momentum = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], axis=1)
    return launch(rng.normal(0, 2, (n, 3)), momentum, rng.choice([-1, 1], n), FIELD)


def test_walking_matches_integrating_the_lorentz_force():
    rng = np.random.default_rng(1)
    momentum, charge = rng.normal((0.3, 0, 0), 0.4, (20, 3)), rng.choice([-1, 1], 20)
    start = rng.normal(0, 5, (20, 3))
    helices = launch(start, momentum, charge, FIELD)
    position, direction = start.copy(), momentum / np.linalg.norm(momentum, axis=1, keepdims=True)
    rate = charge * GEV_PER_TESLA_MM * FIELD / np.linalg.norm(momentum, axis=1)

    def turn(d):  # d(direction)/d(path) = q/p · direction × field
        return rate[:, None] * np.cross(d, [0.0, 0.0, 1.0])

    step = 0.25
    for _ in range(400):
        k1 = turn(direction)
        k2 = turn(direction + step / 2 * k1)
        k3 = turn(direction + step / 2 * k2)
        k4 = turn(direction + step * k3)
        position += step * direction + step**2 / 6 * (k1 + k2 + k3)
        direction = direction + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    walked = helices.walk(100.0 / np.sqrt(1 + helices.slope**2))
    np.testing.assert_allclose(walked.position, position, atol=1e-6)
    unit = walked.momentum() / np.linalg.norm(momentum, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, direction, atol=1e-6)


def test_a_positive_charge_turns_clockwise_in_a_field_along_z():
    helix = launch(np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0]]), np.array([1]), FIELD)
    assert helix.walk(np.array([100.0])).position[0, 1] < 0


@given(seed=st.integers(0, 1000), radius=st.floats(30, 200))
@settings(max_examples=20)
def test_a_helix_leaves_the_cylinder_at_the_azimuth_found(seed, radius):
    helices = draw_helices(seed)
    azimuth = azimuth_at_cylinder(helices, radius)
    # The plane through the crossing whose normal is the radius there must be met at that very point.
    x, y = radius * np.cos(azimuth), radius * np.sin(azimuth)
    length = length_to_upright_plane(helices, azimuth[:, None], x[:, None], y[:, None])[:, 0]
    assert np.isfinite(length).mean() > 0.9
    met = np.flatnonzero(np.isfinite(length))
    at = helices[met].walk(length[met])
    np.testing.assert_allclose(np.hypot(at.position[:, 0], at.position[:, 1]), radius, atol=1e-6)
    assert np.all(np.cos(at.phi - azimuth[met]) > 0)


def test_a_soft_particle_never_reaches_a_far_cylinder():
    helix = launch(np.zeros((1, 3)), np.array([[0.05, 0.0, 0.0]]), np.array([1]), FIELD)
    diameter = 2 * 0.05 / (GEV_PER_TESLA_MM * FIELD)
    assert np.isnan(azimuth_at_cylinder(helix, diameter + 1))[0]
    assert np.isfinite(azimuth_at_cylinder(helix, diameter - 1))[0]


@given(seed=st.integers(0, 1000), alpha=st.floats(-4, 4), distance=st.floats(10, 200))
@settings(max_examples=20)
def test_crossings_of_upright_planes_lie_on_them(seed, alpha, distance):
    helices = draw_helices(seed)
    column = np.full((len(helices.phi), 1), alpha)
    x, y = distance * np.cos(column), distance * np.sin(column)
    length = length_to_upright_plane(helices, column, x, y)[:, 0]
    met = np.flatnonzero(np.isfinite(length))
    at = helices[met].walk(length[met])
    normal = np.array([np.cos(alpha), np.sin(alpha)])
    np.testing.assert_allclose(at.position[:, :2] @ normal, distance, atol=1e-6)
    assert np.all(length[met] > 0)
    assert np.all(np.abs(helices.omega[met]) * length[met] < np.pi)


def test_crossings_of_discs_lie_on_them_and_ahead():
    helices = draw_helices(5)
    length = length_to_disc(helices, np.array([[-300.0, 300.0]]))
    for column, z in enumerate((-300.0, 300.0)):
        met = np.flatnonzero(np.isfinite(length[:, column]))
        assert 20 < len(met) < 120
        at = helices[met].walk(length[met, column])
        np.testing.assert_allclose(at.position[:, 2], z, atol=1e-9)
        assert np.all(np.sign(helices.slope[met]) == np.sign(z))


def test_deflecting_keeps_the_momentum_and_the_field():
    helices = draw_helices(7)
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 0.01, (2, len(helices.phi)))
    bent = deflect(helices, a, b)
    before, after = helices.momentum(), bent.momentum()
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1))
    np.testing.assert_allclose(np.abs(bent.omega) * bent.pt, GEV_PER_TESLA_MM * FIELD)
    cosine = (before * after).sum(axis=1) / np.linalg.norm(before, axis=1) ** 2
    np.testing.assert_allclose(np.arccos(cosine), np.hypot(a, b), rtol=0.15, atol=1e-4)
