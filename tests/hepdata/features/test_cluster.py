import numpy as np
import pandas as pd
import pytest

from hepdata.errors import InputError
from hepdata.features.cluster import CLUSTER_FEATURES, shape_clusters
from hepdata.readers.trackml import read_event
from hepdata.readers.trackml_detector import read_detector
from hepdata.readers.trackml_files import find_detectors, find_events


@pytest.fixture(scope="module")
def event(trackml_events):
    return read_event(find_events(trackml_events)[0], with_cells=True, with_truth=False)


@pytest.fixture(scope="module")
def detector(trackml_events):
    return read_detector(find_detectors(trackml_events))


def shape_by_hand(cells, hit, modules):
    """One cluster, straight from the definitions."""
    own = cells[cells.hit_id == hit.hit_id]
    module = modules.loc[(hit.volume_id, hit.layer_id, hit.module_id)]
    lx = (own.ch0.max() - own.ch0.min() + 1) * module.pitch_u
    ly = (own.ch1.max() - own.ch1.min() + 1) * module.pitch_v
    lz = 2 * module.module_t
    rotation = np.array([[module[f"rot_{row}{column}"] for column in "uvw"] for row in "xyz"])
    gx, gy, gz = rotation @ [lx, ly, lz]
    return {
        "charge_frac": own.value.mean(),
        "leta": -np.log(np.tan(0.5 * np.arctan2(np.hypot(lx, ly), lz))),
        "lphi": np.arctan2(ly, lx),
        "lx": lx,
        "ly": ly,
        "lz": lz,
        "geta": -np.log(np.tan(0.5 * np.arctan2(np.hypot(gx, gy), gz))),
        "gphi": np.arctan2(gy, gx),
    }


def test_clusters_equal_the_definitions_hit_by_hit(trackml_events, event, detector):
    cells = pd.read_csv(trackml_events / "event000001000-cells.csv").sample(frac=1, random_state=0)
    hits = pd.read_csv(trackml_events / "event000001000-hits.csv")
    modules = pd.read_csv(trackml_events / "detectors.csv").set_index(["volume_id", "layer_id", "module_id"])
    module = detector.find_modules(event.hits, "event 1000")
    shapes = shape_clusters(event.cells, event.hits["hit_id"], module, detector, "event 1000")
    by_hand = pd.DataFrame([shape_by_hand(cells, hit, modules.sort_index()) for hit in hits.itertuples()])
    assert set(shapes) == set(CLUSTER_FEATURES)
    for name in CLUSTER_FEATURES:
        assert np.allclose(shapes[name], by_hand[name], rtol=1e-9, atol=1e-12), name


def test_some_hits_have_the_same_shapes_as_among_all(event, detector):
    module = detector.find_modules(event.hits, "event 1000")
    every = shape_clusters(event.cells, event.hits["hit_id"], module, detector, "event 1000")
    some = np.array([3, 10, 11, len(module) - 1])
    few = shape_clusters(event.cells, event.hits["hit_id"][some], module[some], detector, "event 1000")
    assert all((few[name] == every[name][some]).all() for name in CLUSTER_FEATURES)


def test_a_cluster_larger_than_its_module(event, detector):
    module = detector.find_modules(event.hits, "event 1000")
    cells = {name: values.copy() for name, values in event.cells.items()}
    last = np.flatnonzero(cells["hit_id"] == cells["hit_id"][-1])
    cells["hit_id"] = np.append(cells["hit_id"], cells["hit_id"][-1])
    cells["ch0"] = np.append(cells["ch0"], cells["ch0"][last[0]] + 5_000_000)
    cells["ch1"] = np.append(cells["ch1"], cells["ch1"][last[0]])
    cells["value"] = np.append(cells["value"], 0.1)
    with pytest.raises(InputError, match=rf"mm long at hit {cells['hit_id'][-1]}; expected a cluster within"):
        shape_clusters(cells, event.hits["hit_id"], module, detector, "event 1000")
