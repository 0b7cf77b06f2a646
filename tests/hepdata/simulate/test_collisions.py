import numpy as np

from hepdata.angles import wrap_phi
from hepdata.simulate.collisions import BEAM_LENGTH, BEAM_WIDTH, JET_SHARE, JET_WIDTH, MIN_PT, collide


def draw(n: int = 40_000, seed: int = 0):
    return collide(n, np.random.default_rng(seed))


def test_about_a_seventh_lie_above_the_momentum_of_interest_and_none_below_the_cut():
    particles = draw()
    pt = np.hypot(particles.momentum[:, 0], particles.momentum[:, 1])
    assert abs(np.mean(pt > 0.9) - 1 / 7) < 0.01
    assert pt.min() >= MIN_PT
    # falling: every octave has fewer particles per GeV than the one before
    counts, edges = np.histogram(pt, bins=[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4])
    assert np.all(np.diff(counts / np.diff(edges)) < 0)


def test_a_share_of_the_particles_of_a_vertex_lies_in_two_opposite_jets():
    particles = draw()
    is_prompt = (particles.particle_id & 0xFFFF) == 0
    vertex, (px, py, pz) = particles.particle_id[is_prompt] >> 52, particles.momentum[is_prompt].T
    phi, eta = np.arctan2(py, px), np.arcsinh(pz / np.hypot(px, py))
    pairs = [(i, i + step) for step in range(1, 9) for i in np.flatnonzero(vertex[step:] == vertex[:-step])]
    one, other = np.array(pairs).T
    deta, dphi = eta[one] - eta[other], wrap_phi(phi[one] - phi[other])
    # Fragments of one jet are closer than twice its width; opposite jets differ by π in φ only.
    same = np.mean((np.abs(deta) < 2 * JET_WIDTH) & (np.abs(dphi) < 2 * JET_WIDTH))
    opposite = np.mean(np.abs(dphi) > np.pi - 2 * JET_WIDTH)
    spread = 2 * JET_WIDTH / np.pi
    assert abs(same - (JET_SHARE**2 / 2 * 0.843**2)) < 0.03
    assert abs(opposite - (JET_SHARE**2 / 2 * 0.843 + (1 - JET_SHARE**2) * spread)) < 0.03


def test_vertices_spread_over_the_luminous_region():
    particles = draw()
    vertex = particles.particle_id >> 52
    primary = ((particles.particle_id >> 40) & 0xFFF) == 0
    _, first = np.unique(vertex[primary], return_index=True)
    where = particles.position[primary][first]
    assert len(where) > 500
    np.testing.assert_allclose(where.std(axis=0), (BEAM_WIDTH, BEAM_WIDTH, BEAM_LENGTH), rtol=0.15)
    # all primaries of a vertex start from it
    order = np.searchsorted(np.unique(vertex[primary]), vertex[primary])
    assert np.array_equal(particles.position[primary], where[order])


def test_numbers_are_unique_ascending_and_beyond_the_integers_of_float64():
    particles = draw()
    assert np.all(np.diff(particles.particle_id) > 0)
    assert particles.particle_id.min() > 2**53
    assert particles.particle_id.dtype == np.int64
    # Some ids change in a conversion to float64, which detects a reader that does so.
    assert np.any(particles.particle_id.astype(np.float64).astype(np.int64) != particles.particle_id)


def test_decays_are_displaced_and_conserve_momentum_and_charge():
    particles = draw()
    product = particles.particle_id & 0xFFFF
    parent = particles.particle_id & ~np.int64(0xFFFF)
    distance = np.hypot(particles.position[:, 0], particles.position[:, 1])
    assert np.median(distance[product > 0]) > 5
    assert np.all(distance[product == 0] < 0.2)
    assert 0.15 < np.mean(product > 0) < 0.3
    both = np.isin(parent[product == 1], parent[product == 2])
    first = np.flatnonzero(product == 1)[both]
    second = first + 1
    assert np.array_equal(parent[first], parent[second])
    assert np.all(particles.charge[first] + particles.charge[second] == 0)
    # the invariant mass of two pions, or of a proton and a pion, is that of the parent
    masses = []
    for mass_a in (0.1396, 0.9383):
        energy = [
            np.sqrt((particles.momentum[rows] ** 2).sum(axis=1) + mass**2)
            for rows, mass in ((first, mass_a), (second, 0.1396))
        ]
        total = particles.momentum[first] + particles.momentum[second]
        masses.append(np.sqrt((energy[0] + energy[1]) ** 2 - (total**2).sum(axis=1)))
    is_kaon, is_lambda = np.abs(masses[0] - 0.4976) < 1e-6, np.abs(masses[1] - 1.1157) < 1e-6
    assert np.all(is_kaon | is_lambda)
    assert is_kaon.any()
    assert is_lambda.any()


def test_small_crossings_still_have_several_vertices():
    assert len(np.unique(draw(60).particle_id >> 52)) >= 5
    assert draw(500_000).particle_id.min() > 0
