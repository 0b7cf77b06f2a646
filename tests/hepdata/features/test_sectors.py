import numpy as np
import pytest

from hepdata.features.sectors import Sectors


def ring(n_points):
    phi = np.linspace(-np.pi, np.pi, n_points, endpoint=False) + 1e-4
    return np.cos(phi) / 50, np.sin(phi) / 50


@pytest.mark.parametrize("n_sectors", [3, 4, 5, 7, 10, 16])
def test_exact_cores_tile_the_circle(n_sectors):
    u, v = ring(5000)
    sectors = Sectors(n_sectors=n_sectors, overlap=1.0)
    inside = sum(sectors.select(sector, u, v).astype(int) for sector in range(n_sectors))
    assert (inside == 1).mean() > 0.999
    assert inside.max() == 1


@pytest.mark.parametrize("n_sectors", [3, 6, 10])
def test_overlap_reaches_into_both_neighbours(n_sectors):
    u, v = ring(5000)
    sectors = Sectors(n_sectors=n_sectors, overlap=1.3)
    share = sectors.select(0, u, v).mean()
    assert share == pytest.approx(np.arctan(1.3 * np.tan(np.pi / n_sectors)) / np.pi, abs=1e-3)


def test_one_sector_takes_everything():
    u, v = ring(100)
    assert Sectors().select(0, u, v).all()


def test_sectors_turn_against_phi():
    u, v = np.array([np.cos(-2 * np.pi / 10)]), np.array([np.sin(-2 * np.pi / 10)])
    sectors = Sectors(n_sectors=10, edge="published")
    assert [sector for sector in range(10) if sectors.select(sector, u, v)[0]] == [1]


def test_home_is_where_at_least_half_of_the_hits_are():
    angle = -2 * np.pi / 10 * np.array([2, 2, 3, 7, 7, 8, 8, 4, 5])
    particle_id = np.array([1, 1, 1, 2, 2, 2, 2, 0, 3])
    home = Sectors(n_sectors=10).find_home(np.cos(angle), np.sin(angle), particle_id)
    assert home.tolist() == [2, 2, 2, 7, 7, 7, 7, -1, 5]


def test_a_particle_in_the_gap_between_published_cores_has_a_home():
    angle = np.array([0.31])
    sectors = Sectors(n_sectors=10, overlap=1.0, edge="published")
    u, v = np.cos(angle), np.sin(angle)
    assert not any(sectors.select(sector, u, v)[0] for sector in range(10))
    assert sectors.find_home(u, v, np.array([4])).tolist() == [0]


def test_published_sectors_by_azimuth():
    """The cloud of sector s takes |φ + 2πs/10| < atan(1.3 atan(π/10)); its core has no factor 1.3."""
    random = np.random.default_rng(1)
    phi, particle_id = random.uniform(-np.pi, np.pi, 2000), random.integers(0, 300, 2000)
    phi = random.uniform(-np.pi, np.pi, 300)[particle_id] + 0.2 * phi  # particles are narrower than an event
    u, v = np.cos(phi) / 50, np.sin(phi) / 50
    sectors = Sectors(n_sectors=10, edge="published")
    home = sectors.find_home(u, v, particle_id)
    offset = np.abs(np.angle(np.exp(1j * (phi + 2 * np.pi / 10 * np.arange(10)[:, None]))))  # (10, 2000)
    for sector in range(10):
        expected = offset[sector] < np.arctan(1.3 * np.arctan(np.pi / 10))
        np.testing.assert_array_equal(sectors.select(sector, u, v), expected)
    is_in_core = offset < np.arctan(np.arctan(np.pi / 10))
    assert (home[particle_id == 0] == -1).all()
    for particle in range(1, 300):
        own = particle_id == particle
        n_inside = is_in_core[:, own].sum(axis=1)
        assert len(set(home[own])) == 1
        assert n_inside[home[own][0]] == n_inside.max()


def test_golden_sectors_of_the_real_event(real_file):
    one = np.load(real_file("golden/event1_pixel_one_sector.npz"))
    ten = np.load(real_file("golden/event1_pixel_ten_sectors.npz"))
    sectors = Sectors(n_sectors=10, edge="published")
    u, v = one["u"].astype(np.float64), one["v"].astype(np.float64)
    for sector in range(10):
        expected = ten["hit_id"][ten["sector_index"] == sector]
        assert set(one["hit_id"][sectors.select(sector, u, v)]) == set(expected)
    home = dict(zip(one["particle_id"], sectors.find_home(u, v, one["particle_id"]), strict=True))
    for particle in np.unique(ten["particle_id"]):
        # Half of the hits are in each of two sectors: both could claim the particle, one does.
        claims = set(ten["sector"][ten["particle_id"] == particle]) - {-1}
        if particle != 0:
            assert home[particle] in (claims or range(10))
    assert home[0] == -1
