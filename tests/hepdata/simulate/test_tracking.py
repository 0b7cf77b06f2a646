import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError
from hepdata.simulate.tracking import simulate_event
from hepdata.simulate.trackml_writer import describe_detector

HIT = ["volume_id", "layer_id", "module_id"]


def frame(table) -> pd.DataFrame:
    return pd.DataFrame(table)


def join(event, detector) -> pd.DataFrame:
    """Hits with their truth and module."""
    hits = frame(event.hits).merge(frame(event.truth), on="hit_id", validate="1:1")
    modules = frame(describe_detector(detector.modules)).assign(depth=detector.modules.depth)
    return hits.merge(modules, on=HIT, how="left", validate="m:1")


def to_local(hits: pd.DataFrame, x: str, y: str, z: str) -> np.ndarray:
    """Points or directions in the module's frame, with the rotation of the detectors table."""
    rotation = hits[[f"rot_{a}{b}" for a in "xyz" for b in "uvw"]].to_numpy().reshape(-1, 3, 3)
    return np.einsum("ni,nij->nj", hits[[x, y, z]].to_numpy(), rotation)


def test_every_hit_lies_on_its_module(event, detector):
    hits = join(event, detector)
    assert hits.notna().all(axis=None)
    for x, y, z in (("x", "y", "z"), ("tx", "ty", "tz")):
        offset = hits.assign(**{name: hits[name] - hits[f"c{name[-1]}"] for name in (x, y, z)})
        u, v, w = to_local(offset, x, y, z).T
        half_u = hits.module_minhu + (hits.module_maxhu - hits.module_minhu) * (v / hits.module_hv + 1) / 2
        np.testing.assert_allclose(w, 0, atol=1e-9)
        assert np.all(np.abs(v) <= hits.module_hv + 1e-9)
        assert np.all(
            np.abs(u) <= half_u + hits.pitch_u
        )  # cells at the slanted edge of a wedge reach over it


def test_hits_are_numbered_from_one_in_the_order_of_modules(event):
    hits = frame(event.hits)
    assert np.array_equal(hits.hit_id, np.arange(1, len(hits) + 1))
    assert hits[HIT].apply(tuple, axis=1).is_monotonic_increasing


def test_all_tables_join(event):
    truth, particles, cells = frame(event.truth), frame(event.particles), frame(event.cells)
    assert np.array_equal(truth.hit_id, event.hits["hit_id"])
    assert particles.particle_id.is_unique
    assert set(truth.particle_id) - {0} <= set(particles.particle_id)
    counted = truth[truth.particle_id > 0].groupby("particle_id").size()
    nhits = particles.set_index("particle_id").nhits
    assert np.array_equal(nhits[nhits > 0].sort_index(), counted.sort_index())
    assert (nhits == 0).any()
    assert np.array_equal(np.unique(cells.hit_id), event.hits["hit_id"])
    assert cells.hit_id.is_monotonic_increasing
    assert set(particles.q) == {-1, 1}


def test_weights_sum_to_one_over_the_hits_of_particles(event):
    truth = frame(event.truth)
    assert truth.weight.sum() == pytest.approx(1)
    assert (truth.weight[truth.particle_id == 0] == 0).all()
    assert (truth.weight >= 0).all()


@pytest.mark.parametrize("n_hits", [100, 500, 2000, 20_000])
def test_events_have_about_the_size_asked_for(n_hits, detector):
    sizes = [simulate_event(event_id, n_hits, 0, detector).n_hits for event_id in range(6)]
    assert abs(np.mean(sizes) / n_hits - 1) < 0.1
    assert len(set(sizes)) > 1
    assert max(sizes) < 1.25 * n_hits
    assert min(sizes) > 0.8 * n_hits


def test_a_large_event_has_the_mix_of_the_real_ones(large_event):
    truth, particles = frame(large_event.truth), frame(large_event.particles)
    assert abs(large_event.n_hits / 60_000 - 1) < 0.12
    assert abs((truth.particle_id == 0).mean() - 0.15) < 0.005
    assert abs((np.hypot(particles.px, particles.py) > 0.9).mean() - 1 / 7) < 0.015
    assert 5.5 < particles.nhits[particles.nhits > 0].mean() < 9
    assert (particles.nhits >= 3).mean() > 0.9
    assert particles.vz.std() > 40
    volumes = pd.Series(large_event.hits["volume_id"]).value_counts(normalize=True)
    assert volumes.to_dict() == pytest.approx({8: 0.54, 7: 0.23, 9: 0.23}, abs=0.04)


def test_inefficiency_leaves_gaps(large_event, detector):
    """About one stiff central track in twelve misses one of the four barrel layers."""
    particles = frame(large_event.particles)
    pt = np.hypot(particles.px, particles.py)
    # A slope below 1 and a vertex near the middle: such a track crosses all four layers.
    central = particles[
        (pt > 1) & (np.abs(particles.pz / pt) < 1) & (np.hypot(particles.vx, particles.vy) < 1)
    ]
    hits = frame(large_event.hits).merge(frame(large_event.truth), on="hit_id")
    layers = hits[hits.volume_id == 8].groupby("particle_id").layer_id.nunique().reindex(central.particle_id)
    assert 0.02 < np.mean(layers.fillna(0) < 4) < 0.12


@pytest.mark.parametrize(("axis", "channel", "pitch"), [(0, "ch0", "pitch_u"), (1, "ch1", "pitch_v")])
def test_the_extent_of_a_cluster_tells_the_crossing_angle(axis, channel, pitch, large_event, detector):
    hits = join(large_event, detector)
    cells = frame(large_event.cells).groupby("hit_id")[channel]
    hits["extent"] = hits.hit_id.map(cells.max() - cells.min() + 1)
    hits = hits[hits.particle_id > 0]
    local = to_local(hits, "tpx", "tpy", "tpz")
    tangent = np.abs(local[:, axis] / local[:, 2])
    expected = 1 + hits.depth * tangent / hits[pitch]
    assert np.corrcoef(expected, hits.extent)[0, 1] > (0.7, 0.97)[axis]
    mean = hits.extent.groupby(pd.cut(expected, [1, 2, 3, 5, 9, 17])).mean()
    wanted = expected.groupby(pd.cut(expected, [1, 2, 3, 5, 9, 17])).mean()
    known = mean.notna() & (expected.groupby(pd.cut(expected, [1, 2, 3, 5, 9, 17])).size() > 200)
    np.testing.assert_allclose(mean[known], wanted[known], rtol=0.12)
    assert known.sum() >= (1, 4)[axis]


def test_charge_follows_the_path_and_noise_has_little(large_event, detector):
    hits = join(large_event, detector)
    hits["charge"] = hits.hit_id.map(frame(large_event.cells).groupby("hit_id").value.sum())
    local = to_local(hits, "tpx", "tpy", "tpz")
    path = hits.depth * np.linalg.norm(local, axis=1) / np.abs(local[:, 2])
    is_noise = hits.particle_id == 0
    assert np.corrcoef(path[~is_noise], hits.charge[~is_noise])[0, 1] > 0.9
    assert hits.charge[is_noise].median() < 0.7 * hits.charge[~is_noise].median()


def test_clusters_of_particles_that_touch_are_one_hit(large_event):
    """No two cells of different hits of particles are neighbours on a module."""
    truth, hits = frame(large_event.truth), frame(large_event.hits)
    cells = frame(large_event.cells).merge(hits[["hit_id", *HIT]], on="hit_id")
    cells = cells[cells.hit_id.isin(truth.hit_id[truth.particle_id > 0])]
    for du, dv in ((0, 1), (1, -1), (1, 0), (1, 1)):
        moved = cells.assign(ch0=cells.ch0 + du, ch1=cells.ch1 + dv)
        both = cells.merge(moved, on=[*HIT, "ch0", "ch1"])
        assert len(both) > 1000
        assert (both.hit_id_x == both.hit_id_y).all()


def test_hits_are_measured_within_a_pitch_or_two(large_event, detector):
    hits = join(large_event, detector)
    hits = hits[hits.particle_id > 0]
    error = hits.assign(dx=hits.x - hits.tx, dy=hits.y - hits.ty, dz=hits.z - hits.tz)
    u, v, _ = to_local(error, "dx", "dy", "dz").T
    assert 0.005 < np.std(u) < detector.layout.pitch_u
    # Long clusters are cut at the edges of modules, hence the quantile.
    assert 0.005 < np.quantile(np.abs(v), 0.95) < detector.layout.pitch_v


def test_the_same_numbers_give_the_same_event_and_others_another(detector):
    first, again = (simulate_event(7, 500, 1, detector) for _ in range(2))
    others = [simulate_event(8, 500, 1, detector), simulate_event(7, 500, 2, detector)]
    for name in ("hits", "cells", "particles", "truth"):
        assert frame(getattr(first, name)).equals(frame(getattr(again, name)))
        assert not any(frame(getattr(first, name)).equals(frame(getattr(other, name))) for other in others)


@pytest.mark.parametrize(
    ("arguments", "name"), [((-1, 500, 0), "event_id"), ((1, 99, 0), "n_hits"), ((1, 500, -1), "seed")]
)
def test_numbers_out_of_range_are_refused(arguments, name, detector):
    with pytest.raises(InputError, match=rf"{name}: found -?\d+; expected a whole number of at least"):
        simulate_event(*arguments, detector)
