import numpy as np
import pytest

from hepdata.simulate.helix import launch
from hept.tracks.helix import HitError, find_perigee, fit_helices, measure_distances

RNG = np.random.default_rng(0)


def make_tracks(n=200, n_hits=8, smear=0.0):
    """Helices from near the beam, and points on them."""
    pt, phi, eta = RNG.uniform(0.3, 8, n), RNG.uniform(-np.pi, np.pi, n), RNG.uniform(-2, 2, n)
    charge, d0, z0 = RNG.choice([-1, 1], n), RNG.uniform(-3, 3, n), RNG.uniform(-100, 100, n)
    start = np.stack([d0 * np.sin(phi), -d0 * np.cos(phi), z0], 1)
    momentum = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], 1)
    helices = launch(start, momentum, charge, 2.0)
    hits = np.stack([helices.walk(np.full(n, s)).position for s in np.linspace(30, 500, n_hits)], 1)
    hits = (hits + RNG.normal(0, smear, hits.shape) if smear else hits).reshape(-1, 3)
    return (
        np.repeat(np.arange(n), n_hits),
        hits,
        {"pt": pt, "phi": phi, "eta": eta, "d0": d0, "z0": z0},
        charge,
    )


def test_exact_helices_are_found_again():
    track, hits, true, charge = make_tracks()
    fitted = fit_helices(track, *hits.T, 200)
    np.testing.assert_array_equal(fitted.charge, charge)
    found = {"pt": fitted.pt(), "phi": fitted.phi, "eta": fitted.eta, "d0": fitted.d0, "z0": fitted.z0}
    for name, values in true.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-4, err_msg=name)
    assert fitted.chi2.max() < 1e-6
    assert measure_distances(fitted, track, *hits.T).max() < 1e-8


def test_errors_and_chi2_are_those_of_the_smearing():
    track, hits, true, _ = make_tracks(2000, smear=0.02)
    # Points, smeared alike in all directions, have this error across the track.
    fitted = fit_helices(track, *hits.T, 2000, error=HitError(0.02, 0.0), with_covariance=True)
    assert np.mean(fitted.quality) == pytest.approx(1, abs=0.05)
    sigma = np.sqrt(np.einsum("mii->mi", fitted.covariance))
    pulls = {
        "phi": np.angle(np.exp(1j * (fitted.phi - true["phi"]))) / sigma[:, 1],
        "d0": (fitted.d0 - true["d0"]) / sigma[:, 2],
        "slope": (fitted.slope - np.sinh(true["eta"])) / sigma[:, 3],
        "z0": (fitted.z0 - true["z0"]) / sigma[:, 4],
    }
    for name, pull in pulls.items():
        assert np.std(pull) == pytest.approx(1, abs=0.1), name


def test_rotation_leaves_the_fit_as_it_is():
    track, hits, _, _ = make_tracks(50, smear=0.05)
    turn = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    one = fit_helices(track, *hits.T, 50)
    other = fit_helices(track, *(turn @ hits.T[:2]), hits[:, 2], 50)
    np.testing.assert_allclose(other.chi2, one.chi2, rtol=1e-6)
    np.testing.assert_allclose(np.angle(np.exp(1j * (other.phi - one.phi - 1))), 0, atol=1e-9)


@pytest.mark.parametrize("n_hits", [1, 2])
def test_two_hits_make_no_helix(n_hits):
    fitted = fit_helices(np.zeros(n_hits, int), *np.random.default_rng(1).normal(size=(3, n_hits)), 2)
    assert np.isnan(fitted.chi2).all()
    assert np.isinf(fitted.quality).all()
    assert fitted.charge.tolist() == [0, 0]


def test_unusable_errors_are_named():
    with pytest.raises(ValueError, match="point is -1; it must be finite"):
        HitError(-1)
    with pytest.raises(ValueError, match="both 0"):
        HitError(0.0, 0.0)


def test_the_helix_of_a_particle_from_elsewhere_is_that_at_the_beam():
    """From a point further along each helix, with the momentum there."""
    n = 200
    _, _, true, charge = make_tracks(n)
    start = np.stack([true["d0"] * np.sin(true["phi"]), -true["d0"] * np.cos(true["phi"]), true["z0"]], 1)
    pt, slope = true["pt"], np.sinh(true["eta"])
    momentum = pt[:, None] * np.stack([np.cos(true["phi"]), np.sin(true["phi"]), slope], 1)
    later = launch(start, momentum, charge, 2.0).walk(np.full(n, 250.0))
    phi, d0, z0 = find_perigee(later.position, *later.momentum()[:, :2].T, slope, charge)
    np.testing.assert_allclose(np.angle(np.exp(1j * (phi - true["phi"]))), 0, atol=1e-9)
    np.testing.assert_allclose(d0, true["d0"], atol=1e-7)
    np.testing.assert_allclose(z0, true["z0"], atol=1e-7)


def test_the_path_of_a_neutral_particle_is_straight():
    position = np.array([[3.0, 4.0, 10.0]])
    phi, d0, z0 = find_perigee(position, np.ones(1), np.zeros(1), np.array([2.0]), np.zeros(1))
    assert (phi[0], d0[0], z0[0]) == (0, -4, 4)
