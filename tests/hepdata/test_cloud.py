import copy
import pickle

import numpy as np
import pytest

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError


@pytest.fixture
def cloud():
    columns = {"eta": np.array([0.5, -1.0], np.float32), "phi": np.array([3.0, 0.1], np.float32)}
    return PointCloud("pileup", event_id=7, sector=0, columns=columns)


def test_columns_are_attributes(cloud):
    assert cloud.n_points == 2
    assert cloud.eta is cloud.columns["eta"]
    np.testing.assert_array_equal(cloud.coords, np.array([[0.5, 3.0] * 2, [-1.0, 0.1] * 2], np.float32))


def test_inputs_of_columns_that_were_not_read_are_refused(cloud):
    with pytest.raises(InputError, match=r"no column 'px'.*read the cloud with all its columns"):
        _ = cloud.features


def test_a_cloud_shows_its_columns(cloud):
    assert repr(cloud) == "PointCloud(pileup, event 7: 2 points, 2 columns)"
    assert "<td>eta</td><td>float32</td><td>-1</td>" in cloud._repr_html_()
    assert {"eta", "phi"} <= set(dir(cloud))


def test_unknown_column_names_the_nearest(cloud):
    with pytest.raises(AttributeError, match=r"no column 'phy': did you mean 'phi'\?"):
        _ = cloud.phy


def test_clouds_can_be_copied_and_pickled(cloud):
    for again in (copy.deepcopy(cloud), pickle.loads(pickle.dumps(cloud))):
        np.testing.assert_array_equal(again.eta, cloud.eta)


def test_pair_rows_and_edges_agree():
    pairs = PairList(ptr=np.array([0, 2, 2, 3], np.int32), idx=np.array([1, 2, 0], np.int32))
    assert pairs.n_pairs == 3
    assert pairs.row(0).tolist() == [1, 2]
    assert pairs.row(1).tolist() == []
    assert pairs.as_edges().tolist() == [[0, 0, 2], [1, 2, 0]]
