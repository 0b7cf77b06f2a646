import numpy as np
import pytest

from hepdata.simulate.collisions import Particles, collide
from hepdata.simulate.crossings import trace
from hepdata.simulate.helix import GEV_PER_TESLA_MM

STEP = 1.0  # mm


def integrate(particles: Particles, field: float, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions (T, K, 3) along the paths, by small steps of the Lorentz force, and angles turned (T, K)."""
    p = np.linalg.norm(particles.momentum, axis=1)
    rate = particles.charge * GEV_PER_TESLA_MM * field / p
    position, direction = particles.position.copy(), particles.momentum / p[:, None]
    path = [position]
    for _ in range(n_steps):
        middle = direction + STEP / 2 * rate[:, None] * np.cross(direction, [0.0, 0.0, 1.0])
        position = position + STEP * middle
        direction = direction + STEP * rate[:, None] * np.cross(middle, [0.0, 0.0, 1.0])
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        path.append(position)
    turned = np.abs(rate)[None, :] * STEP * np.arange(n_steps + 1)[:, None]
    return np.stack(path), turned


@pytest.fixture(scope="module")
def particles() -> Particles:
    everyone = collide(400, np.random.default_rng(11))
    from_beam = np.hypot(everyone.position[:, 0], everyone.position[:, 1]) < 1
    return everyone[np.flatnonzero(from_beam)[:14]]


@pytest.fixture(scope="module")
def crossings(particles, detector):
    return trace(particles, detector, np.random.default_rng(0), scattering=False)


def test_without_scattering_exactly_the_modules_on_the_integrated_path_are_crossed(
    particles, crossings, detector
):
    """Brute force: every module against every step of every path."""
    path, turned = integrate(particles, detector.layout.field, 1700)
    modules = detector.modules
    found = {}
    for k in range(len(particles)):
        ahead = path[turned[:, k] < np.pi, k]
        w = (ahead @ modules.rotation[:, :, 2].T) - (modules.rotation[:, :, 2] * modules.centre).sum(axis=1)
        t, m = np.nonzero((w[:-1] < 0) & (w[1:] >= 0))
        share = w[t, m] / (w[t, m] - w[t + 1, m])
        at = ahead[t] + share[:, None] * (ahead[t + 1] - ahead[t])
        u, v = detector.modules.to_local(m, at)
        inside = (np.abs(v) <= modules.half_v[m]) & (np.abs(u) <= modules.half_u_at(m, v))
        found |= {(k, int(row)): point for row, point in zip(m[inside], at[inside], strict=True)}
    traced = {
        (int(k), int(m)): point
        for k, m, point in zip(crossings.particle, crossings.module, crossings.position, strict=True)
    }
    assert found.keys() == traced.keys()
    assert len(found) > 50
    for key, point in found.items():
        np.testing.assert_allclose(traced[key], point, atol=0.01)


def test_crossings_lie_on_the_modules_planes(crossings, detector):
    modules = detector.modules
    offset = crossings.position - modules.centre[crossings.module]
    w = (offset * modules.rotation[crossings.module][:, :, 2]).sum(axis=1)
    np.testing.assert_allclose(w, 0, atol=1e-8)


def test_momentum_at_a_crossing_keeps_its_size(particles, crossings):
    size = np.linalg.norm(crossings.momentum, axis=1)
    np.testing.assert_allclose(size, np.linalg.norm(particles.momentum, axis=1)[crossings.particle])


def test_scattering_follows_highland(detector):
    """RMS kink after the first barrel layer of particles at a right angle to the beam, at two momenta."""
    n = 4000
    rng = np.random.default_rng(2)
    phi = rng.uniform(-np.pi, np.pi, n)
    for p in (0.5, 5.0):
        momentum = p * np.stack([np.cos(phi), np.sin(phi), np.zeros(n)], axis=1)
        particles = Particles(np.arange(n), np.zeros((n, 3)), momentum, np.ones(n, dtype=np.int64))
        crossings = trace(particles, detector, rng)
        second = crossings.step == 1
        polar = crossings.momentum[second, 2] / p
        x = detector.layout.radiation_length
        beta = p / np.hypot(p, 0.1396)
        expected = 0.0136 / (beta * p) * np.sqrt(x) * (1 + 0.038 * np.log(x))
        assert polar.std() == pytest.approx(expected, rel=0.06)


def test_a_particle_born_between_layers_leaves_hits_only_beyond(detector):
    start = np.array([[90.0, 0.0, 0.0]])
    particle = Particles(np.array([1]), start, np.array([[2.0, 0.1, 0.0]]), np.array([1]))
    crossings = trace(particle, detector, np.random.default_rng(0))
    assert set(crossings.step.tolist()) == {2, 3}


def test_a_looper_is_followed_for_half_a_turn(detector):
    particle = Particles(np.array([1]), np.zeros((1, 3)), np.array([[0.04, 0.0, 0.001]]), np.array([1]))
    crossings = trace(particle, detector, np.random.default_rng(0), scattering=False)
    # Its diameter is 133 mm: it crosses three layers outwards; the way back is not simulated.
    assert set(crossings.step.tolist()) == {0, 1, 2}
    assert np.all((crossings.momentum[:, :2] * crossings.position[:, :2]).sum(axis=1) > 0)
