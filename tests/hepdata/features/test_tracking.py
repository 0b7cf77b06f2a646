from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError
from hepdata.features.hit_clouds import CloudChoice
from hepdata.features.sectors import Sectors
from hepdata.features.tracking import make_clouds, trackml_schema
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_detector import read_detector
from hepdata.readers.trackml_files import find_detectors, find_events

GOLDEN_NAMES = {"eta": "eta_rz", "particle_eta": "eta_pt", "is_reconstructable": "reconstructable"}
FEATURES = ["r", "phi", "z", "eta", "u", "v", "charge_frac", "leta", "lphi", "lx", "ly", "lz", "geta", "gphi"]
# The golden η was computed in float32 throughout, which near η = 0 leaves it 1e-7 off in absolute terms.
ETA_ROUNDING = 2e-7
LABELS = ["layer", "particle_id", "pt", "particle_eta", "n_hits", "n_layers_hit", "is_reconstructable"]


def clouds_of(folder, choice=None, with_cells=True, with_truth=True):
    event = read_event(find_events(folder)[0], with_cells=with_cells, with_truth=with_truth)
    return make_clouds(event, read_detector(find_detectors(folder)), choice or CloudChoice())


@pytest.fixture
def event(trackml_events):
    return read_event(find_events(trackml_events)[0], with_cells=True, with_truth=True)


@pytest.fixture
def detector(trackml_events):
    return read_detector(find_detectors(trackml_events))


def test_features_equal_the_definitions_by_pandas(trackml_events, read_by_pandas):
    (cloud,) = clouds_of(trackml_events)
    expected = read_by_pandas(trackml_events)
    order = np.argsort(cloud.hit_id)
    assert (cloud.hit_id[order] == expected.hit_id).all()
    for name in FEATURES:
        np.testing.assert_allclose(
            cloud.columns[name][order], expected[name], rtol=1e-6, atol=1e-7, err_msg=name
        )


def test_labels_equal_the_definitions_by_pandas(trackml_events, read_by_pandas):
    (cloud,) = clouds_of(trackml_events)
    expected = read_by_pandas(trackml_events)
    order = np.argsort(cloud.hit_id)
    assert 0 < (expected.particle_id == 0).sum() < len(expected)
    for name in LABELS:
        np.testing.assert_allclose(
            cloud.columns[name][order], expected[name], rtol=1e-6, atol=1e-7, err_msg=name
        )


@pytest.mark.parametrize("choice", [CloudChoice(), CloudChoice(sectors=Sectors(n_sectors=10))])
def test_hits_keep_the_weight_of_the_challenge(trackml_events, read_by_pandas, choice):
    expected = read_by_pandas(trackml_events).set_index("hit_id").weight.astype(np.float32)
    assert expected.nunique() > 10
    for cloud in clouds_of(trackml_events, choice):
        np.testing.assert_array_equal(cloud.weight, expected[cloud.hit_id])


def test_ten_published_sectors_equal_the_definitions(trackml_events, read_by_pandas, is_in_published_sector):
    clouds = clouds_of(trackml_events, CloudChoice(sectors=Sectors(n_sectors=10, edge="published")))
    event = read_by_pandas(trackml_events)
    assert [cloud.sector for cloud in clouds] == list(range(10))
    for cloud in clouds:
        expected = event[is_in_published_sector(event, cloud.sector)]
        order = np.argsort(cloud.hit_id)
        assert (cloud.hit_id[order] == expected.hit_id).all()
        for name in FEATURES:
            np.testing.assert_allclose(cloud.columns[name][order], expected[name], rtol=1e-6, atol=1e-7)


def test_features_of_the_real_event_equal_the_golden_ones(real_file):
    (cloud,) = clouds_of(real_file("data/trackml"))
    golden = np.load(real_file("golden/event1_pixel_one_sector.npz"))
    order = np.argsort(cloud.hit_id)
    assert (cloud.hit_id[order] == golden["hit_id"]).all()
    for name in FEATURES:
        expected = golden[GOLDEN_NAMES.get(name, name)]
        atol = ETA_ROUNDING if name == "eta" else 0.0
        np.testing.assert_allclose(cloud.columns[name][order], expected, rtol=1e-5, atol=atol, err_msg=name)


def test_labels_of_the_real_event_equal_the_golden_ones(real_file):
    (cloud,) = clouds_of(real_file("data/trackml"))
    golden = np.load(real_file("golden/event1_pixel_one_sector.npz"))
    order = np.argsort(cloud.hit_id)
    is_particle = golden["particle_id"] != 0
    for name in LABELS:
        ours, expected = cloud.columns[name][order], golden[GOLDEN_NAMES.get(name, name)]
        atol = ETA_ROUNDING if name == "particle_eta" else 0.0
        np.testing.assert_allclose(
            ours[is_particle], expected[is_particle], rtol=1e-5, atol=atol, err_msg=name
        )
    for name in ("pt", "particle_eta", "n_hits", "n_layers_hit", "is_reconstructable"):
        assert (cloud.columns[name][order][~is_particle] == 0).all()


def test_ten_sectors_of_the_real_event_equal_the_golden_ones(real_file):
    sectors = Sectors(n_sectors=10, edge="published")
    clouds = clouds_of(real_file("data/trackml"), CloudChoice(sectors=sectors))
    golden = np.load(real_file("golden/event1_pixel_ten_sectors.npz"))
    assert [cloud.sector for cloud in clouds] == list(range(10))
    for cloud in clouds:
        rows = golden["sector_index"] == cloud.sector
        order, golden_order = np.argsort(cloud.hit_id), np.argsort(golden["hit_id"][rows])
        assert (cloud.hit_id[order] == golden["hit_id"][rows][golden_order]).all()
        for name in FEATURES:
            expected = golden[GOLDEN_NAMES.get(name, name)][rows][golden_order]
            np.testing.assert_allclose(cloud.columns[name][order], expected, rtol=1e-5, atol=ETA_ROUNDING)


def test_shuffled_files_give_the_same_clouds(trackml_events, trackml_copy, edit_csv):
    for seed, name in enumerate(("hits", "cells", "truth", "particles")):
        path = trackml_copy / f"event000001000-{name}.csv"
        edit_csv(path, lambda table, seed=seed: table.sample(frac=1, random_state=seed))
    (ours,), (theirs,) = clouds_of(trackml_events), clouds_of(trackml_copy)
    for name, values in ours.columns.items():
        # The charge of a cluster is a sum, whose last digit depends on the order of its cells.
        assert np.allclose(values, theirs.columns[name], rtol=1e-6, atol=0), name


def test_columns_are_those_of_the_schema(trackml_events):
    for choice in (CloudChoice(), CloudChoice(sectors=Sectors(n_sectors=4))):
        for cloud in clouds_of(trackml_events, choice):
            assert list(cloud.columns) == [column.name for column in trackml_schema(choice).columns]
            assert all(cloud.columns[c.name].dtype == c.dtype for c in trackml_schema(choice).columns)


def test_neighbouring_points_are_near_each_other(trackml_events):
    (cloud,) = clouds_of(trackml_events)
    step = np.hypot(np.diff(cloud.eta), np.diff(cloud.phi))
    shuffled = np.random.default_rng(0).permutation(cloud.n_points)
    assert np.median(step) < 0.2 * np.median(
        np.hypot(np.diff(cloud.eta[shuffled]), np.diff(cloud.phi[shuffled]))
    )


def test_a_sector_counts_what_it_shows(trackml_events):
    clouds = clouds_of(trackml_events, CloudChoice(sectors=Sectors(n_sectors=10, edge="published")))
    for cloud in clouds:
        particle = cloud.particle_id[cloud.particle_id != 0]
        sizes = dict(zip(*np.unique(particle, return_counts=True), strict=True))
        assert all(cloud.n_hits[i] == sizes.get(cloud.particle_id[i], 0) for i in range(cloud.n_points))
    everywhere = np.concatenate([cloud.particle_id[cloud.home_sector == cloud.sector] for cloud in clouds])
    assert (everywhere != 0).all()


def test_without_cells_the_cluster_columns_are_absent(trackml_events):
    choice = CloudChoice(has_cell_features=False)
    (cloud,) = clouds_of(trackml_events, choice, with_cells=False)
    assert not {"charge_frac", "lx", "geta"} & set(cloud.columns)
    assert len(trackml_schema(choice).features) == 7


def test_unlabelled_clouds_have_the_same_points(trackml_events):
    (labelled,) = clouds_of(trackml_events)
    (cloud,) = clouds_of(trackml_events, CloudChoice(is_labelled=False), with_truth=False)
    assert "particle_id" not in cloud.columns
    assert (cloud.hit_id == labelled.hit_id).all()


def test_noise_is_dropped_on_request(trackml_events):
    (every,), (clean,) = clouds_of(trackml_events), clouds_of(trackml_events, CloudChoice(keep_noise=False))
    assert (clean.particle_id != 0).all()
    assert set(clean.hit_id) == set(every.hit_id[every.particle_id != 0])


def test_the_pt_cut_drops_slow_particles_and_keeps_noise(trackml_events):
    (every,), (cut,) = clouds_of(trackml_events), clouds_of(trackml_events, CloudChoice(min_pt=0.5))
    assert set(cut.hit_id) == set(every.hit_id[(every.pt >= 0.5) | (every.particle_id == 0)])


def test_strips_leave_the_numbers_of_the_pixels(strips_copy):
    (pixels,), (every,) = clouds_of(strips_copy), clouds_of(strips_copy, CloudChoice(layers="all"))
    hits = pd.read_csv(strips_copy / "event000001000-hits.csv")
    assert set(every.hit_id) == set(hits.hit_id)
    assert set(pixels.hit_id) == set(hits.hit_id[hits.volume_id < 10])
    strips = every.layer[np.isin(every.hit_id, hits.hit_id[hits.volume_id > 10])]
    assert set(strips) == {18, 19, 20}
    number = dict(zip(every.hit_id, every.layer, strict=True))
    assert all(number[hit] == layer for hit, layer in zip(pixels.hit_id, pixels.layer, strict=True))


def test_all_layers_keep_the_numbers_of_the_pixels(real_file):
    (pixels,) = clouds_of(real_file("data/trackml"))
    (every,) = clouds_of(real_file("data/trackml"), CloudChoice(layers="all"))
    assert every.n_points == 5527
    assert every.layer.max() == 47
    number = dict(zip(every.hit_id, every.layer, strict=True))
    assert all(number[hit] == layer for hit, layer in zip(pixels.hit_id, pixels.layer, strict=True))


def test_a_layer_without_hits_keeps_its_number(event, detector):
    (every,) = make_clouds(event, detector, CloudChoice())
    keep = event.hits["volume_id"] != 7
    hits = {name: values[keep] for name, values in event.hits.items()}
    partial = replace(event, hits=hits, particle_id=event.particle_id[keep])
    (rest,) = make_clouds(partial, detector, CloudChoice())
    assert rest.layer.min() == 7
    number = dict(zip(every.hit_id, every.layer, strict=True))
    assert all(number[hit] == layer for hit, layer in zip(rest.hit_id, rest.layer, strict=True))


def test_an_event_of_noise_only(event, detector):
    silent = replace(event, particle_id=np.zeros_like(event.particle_id))
    with pytest.raises(InputError, match=r"event 1000 .*found only noise"):
        make_clouds(silent, detector, CloudChoice())


def test_an_event_without_pixel_hits(event):
    hits = event.hits | {"volume_id": np.full_like(event.hits["volume_id"], 13)}
    with pytest.raises(InputError, match=r"none of its \d+ hits in the pixel layers"):
        make_clouds(replace(event, hits=hits, cells=None), None, CloudChoice(has_cell_features=False))


def test_a_pt_cut_that_leaves_nothing(event, detector):
    with pytest.raises(InputError, match=r"no particle with pt of at least 1000000\.0 GeV"):
        make_clouds(event, detector, CloudChoice(min_pt=1e6))


def test_a_value_that_float32_cannot_hold(event):
    hits = event.hits | {"z": event.hits["z"] * 1e300}
    with pytest.raises(InputError, match=r"found (z|eta) = \S+ at hit \d+; expected a number that float32"):
        make_clouds(replace(event, hits=hits, cells=None), None, CloudChoice(has_cell_features=False))
