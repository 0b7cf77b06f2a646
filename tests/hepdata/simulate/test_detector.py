import numpy as np

from hepdata.simulate.collisions import Particles
from hepdata.simulate.crossings import trace
from hepdata.simulate.detector import Layout, build_detector


def test_volumes_and_layers_are_numbered_as_in_the_challenge(detector):
    modules = detector.modules
    found = {(int(v), int(layer)) for v, layer in zip(modules.volume_id, modules.layer_id, strict=True)}
    barrel = {(8, layer) for layer in (2, 4, 6, 8)}
    endcaps = {(volume, layer) for volume in (7, 9) for layer in range(2, 15, 2)}
    assert found == barrel | endcaps


def test_layers_grow_outwards_in_the_barrel_and_along_z_in_the_endcaps(detector):
    modules = detector.modules
    for volume, depth in ((7, modules.centre[:, 2]), (9, modules.centre[:, 2]),
                          (8, np.hypot(modules.centre[:, 0], modules.centre[:, 1]))):  # fmt: skip
        of_volume = modules.volume_id == volume
        layers = np.unique(modules.layer_id[of_volume])
        means = [depth[of_volume & (modules.layer_id == layer)].mean() for layer in layers]
        assert np.all(np.diff(means) > 0)
    assert np.all(modules.centre[modules.volume_id == 7, 2] < 0)
    assert np.all(modules.centre[modules.volume_id == 9, 2] > 0)


def test_rows_are_ordered_and_modules_counted_from_one_in_each_layer(detector):
    modules = detector.modules
    keys = np.stack([modules.volume_id, modules.layer_id, modules.module_id], axis=1)
    assert np.array_equal(keys, np.unique(keys, axis=0))
    assert np.all(modules.module_id >= 1)
    assert np.all(np.diff(modules.module_id)[np.diff(modules.layer_id) == 0] == 1)


def test_rotations_are_proper_and_normals_point_outwards(detector):
    modules = detector.modules
    identity = np.einsum("mij,mik->mjk", modules.rotation, modules.rotation)
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(3), identity.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(modules.rotation), 1.0)
    is_barrel = modules.volume_id == 8
    outwards = np.where(is_barrel[:, None], modules.centre * (1, 1, 0), modules.centre * (0, 0, 1))
    cosine = np.einsum("mi,mi->m", modules.rotation[:, :, 2], outwards) / np.linalg.norm(outwards, axis=1)
    np.testing.assert_allclose(cosine[is_barrel], np.cos(detector.layout.tilt))
    np.testing.assert_allclose(cosine[~is_barrel], 1.0)


def test_no_stiff_central_track_slips_between_the_modules_of_a_barrel_layer(detector):
    rng = np.random.default_rng(0)
    n = 4000
    phi, slope = rng.uniform(-np.pi, np.pi, n), rng.uniform(-2, 2, n)
    momentum = 100 * np.stack([np.cos(phi), np.sin(phi), slope], axis=1)
    particles = Particles(np.arange(n), np.zeros((n, 3)), momentum, rng.choice([-1, 1], n))
    crossings = trace(particles, detector, rng, scattering=False)
    for step in range(4):
        assert len(np.unique(crossings.particle[crossings.step == step])) == n
    # Overlapping modules see a good part of the tracks twice.
    assert 4.2 < np.count_nonzero(crossings.step < 4) / n < 6


def test_another_layout_gives_another_detector():
    detector = build_detector(Layout(radii=(40.0, 90.0), disc_z=(700.0,), pitch_u=0.1))
    assert set(np.unique(detector.modules.layer_id)) == {2, 4}
    assert len(detector.barrel) == 2
    assert len(detector.discs[0]) == len(detector.discs[1]) == 1
