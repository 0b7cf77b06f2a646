"""Published torch_geometric files come in: the same points, labels and pairs, whatever their order."""

import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

from benchmarks.published_pairs import list_pairs
from hepdata.errors import InputError
from hepdata.features.pyg_clouds import choose_schema, make_cloud
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.tracking_source import PairChoice, TrackingConfig, open_tracking
from hepdata.readers.pyg_files import StoredCloud, list_clouds, read_tensors

X_NAMES = ["r", "phi", "z", "eta", "u", "v", "charge_frac", "leta", "lphi", "lx", "ly", "lz", "geta", "gphi"]
X_SCALES = np.array([1000.0, np.pi, 1000.0, 1.0, 1e-3, 1e-3] + [1.0] * 8)


@pytest.fixture(scope="session")
def as_published():
    """A cloud's tensors in the published layout: features in one matrix, pairs of both kinds in one list."""

    def convert(cloud, *, scaled=True):
        x = np.stack([cloud.columns[name] for name in X_NAMES], axis=1).astype(np.float64)
        pairs = np.concatenate([cloud.positives.as_edges(), cloud.negatives.as_edges()], axis=1)
        tensors = {
            "x": (x / X_SCALES if scaled else x).astype(np.float32),
            "pos": cloud.coords[:, :2],
            "layer": cloud.layer.astype(np.int64),
            "particle_id": cloud.particle_id,
            "pt": cloud.pt,
            "reconstructable": cloud.is_reconstructable.astype(np.int64),
            "point_pairs_index_rad": pairs.astype(np.int64),
            "evtid": np.array([cloud.event_id]),
            "s": np.array([cloud.sector]),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in tensors.items()}

    return convert


@pytest.fixture
def big_cloud(make_cloud):
    cloud = make_cloud(n_points=60, event_id=21149, sector=3)
    # As far from the beam as pixel hits are: this is how scaled features are told from unscaled ones.
    cloud.columns["r"][:] = np.abs(cloud.r) * 300 + 30
    return cloud


def import_file(path, trust=False):
    (stored,) = list_clouds(path, trust=trust)
    return import_stored(stored, trust)


def import_stored(stored, trust=False):
    tensors = read_tensors(stored, trust=trust)
    schema = choose_schema(tensors)
    assert schema.target.point_id == "index_in_source"
    return make_cloud(tensors, schema, event_id=stored.event_id, sector=stored.sector, where=stored.path)


def assert_same(found, cloud):
    back = found.index_in_source
    for name in ("r", "z", "u", "charge_frac", "gphi"):
        np.testing.assert_allclose(found.columns[name], cloud.columns[name][back], rtol=2e-7)
    for name in ("eta", "phi", "layer", "particle_id", "pt", "is_reconstructable"):
        np.testing.assert_array_equal(found.columns[name], cloud.columns[name][back])
    for ours, theirs in ((found.positives, cloud.positives), (found.negatives, cloud.negatives)):
        pairs = {tuple(pair) for pair in back[ours.as_edges()].T.tolist()}
        assert pairs == {tuple(pair) for pair in theirs.as_edges().T.tolist()}
        assert all(np.all(np.diff(ours.row(i)) > 0) for i in range(found.n_points))


@pytest.mark.parametrize("scaled", [True, False])
def test_a_dictionary_of_tensors(tmp_path, big_cloud, as_published, scaled):
    torch.save(as_published(big_cloud, scaled=scaled), tmp_path / "data21149_s3.pt")
    found = import_file(tmp_path)
    assert (found.event_id, found.sector) == (21149, 3)
    assert_same(found, big_cloud)
    assert "n_hits" not in found.columns


def test_points_follow_the_curve(tmp_path, big_cloud, as_published):
    from hepdata.features.curve import curve_order

    torch.save(as_published(big_cloud), tmp_path / "data1_s0.pt")
    found = import_file(tmp_path)
    assert curve_order(found.eta, found.phi).tolist() == list(range(60))


def test_torch_geometric_data(tmp_path, big_cloud, as_published):
    data = pytest.importorskip("torch_geometric.data", reason="comes with the extra [dev]")
    torch.save(data.Data(**as_published(big_cloud)), tmp_path / "some.pt")
    found = import_file(tmp_path)
    assert (found.event_id, found.sector) == (21149, 3)
    assert_same(found, big_cloud)


def test_many_clouds_in_one_file(tmp_path, make_cloud, as_published):
    data = pytest.importorskip("torch_geometric.data", reason="comes with the extra [dev]")
    clouds = [make_cloud(n_points=20 + i, event_id=i // 2, sector=i % 2) for i in range(4)]
    for cloud in clouds:
        cloud.columns["r"][:] = np.abs(cloud.r) * 300 + 30
    joined, slices = data.InMemoryDataset.collate([data.Data(**as_published(cloud)) for cloud in clouds])
    torch.save((joined, slices, {"train": np.arange(3)}), tmp_path / "data-6k.pt")
    stored = list_clouds(tmp_path)
    assert [(entry.event_id, entry.sector) for entry in stored] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for entry, cloud in zip(stored, clouds, strict=True):
        assert_same(import_stored(entry), cloud)


class Anything:
    """Stands for a class that a pickle may bring along."""


def test_other_pickles_need_trust(tmp_path, big_cloud, as_published):
    content = as_published(big_cloud) | {"extra": OrderedDict(bad=Anything())}
    torch.save(content, tmp_path / "data1_s0.pt")
    with pytest.raises(InputError, match=r"a pickle with other objects than tensors.*add `trust=True`"):
        import_file(tmp_path)
    assert_same(import_file(tmp_path, trust=True), big_cloud)


def test_unlabelled_files_have_no_pairs(tmp_path, big_cloud, as_published):
    tensors = as_published(big_cloud)
    torch.save(
        {name: tensors[name] for name in ("x", "layer", "point_pairs_index_rad")}, tmp_path / "data1_s0.pt"
    )
    found = import_file(tmp_path)
    assert found.positives is None
    assert "particle_id" not in found.columns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "expected a tensor 'x'"),
        ({"layer": None}, "expected a tensor 'layer'"),
        ({"x": torch.zeros(60, 3)}, r"tensor x: found shape \(60, 3\)"),
        ({"layer": torch.zeros(59)}, "tensors of different lengths"),
        ({"point_pairs_index_rad": torch.full((2, 4), 60)}, "indices up to 60; expected"),
    ],
)
def test_files_that_do_not_fit(tmp_path, big_cloud, as_published, change, message):
    tensors = as_published(big_cloud) | change
    torch.save(
        {name: values for name, values in tensors.items() if values is not None}, tmp_path / "data1_s0.pt"
    )
    with pytest.raises(InputError, match=message):
        import_file(tmp_path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 cut short"])
def test_files_that_are_no_torch_files(tmp_path, content):
    (tmp_path / "data1_s0.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"data1_s0\.pt: found a file that torch cannot read"):
        import_file(tmp_path)


def test_plain_pickles_are_refused(tmp_path):
    (tmp_path / "data1_s0.pt").write_bytes(pickle.dumps(Anything()))
    with pytest.raises(InputError, match=r"data1_s0\.pt"):
        import_file(tmp_path)


def test_a_file_of_something_else(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(InputError, match="found a list; expected a torch_geometric Data"):
        list_clouds(tmp_path)


def test_no_files(tmp_path):
    with pytest.raises(InputError, match=r"found no \.pt files"):
        list_clouds(tmp_path)


def test_the_same_cloud_twice(tmp_path, big_cloud, as_published):
    torch.save(as_published(big_cloud), tmp_path / "data21149_s3.pt")
    torch.save(as_published(big_cloud), tmp_path / "other.pt")
    with pytest.raises(InputError, match="event 21149, sector 3, which is in"):
        list_clouds(tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="a file that torch cannot read"):
        read_tensors(StoredCloud(str(tmp_path / "gone.pt"), 1, 0))


def assert_built(found, hit_id, built):
    """A cloud that was imported, whose points are the hits `hit_id`, is the one that was built."""
    back = np.argsort(hit_id)[np.searchsorted(np.sort(hit_id), built.hit_id)]
    for name in ("particle_id", "layer", "is_reconstructable"):
        np.testing.assert_array_equal(found.columns[name][back], built.columns[name])
    for name in ("r", "z", "eta", "u", "charge_frac", "leta", "gphi", "pt"):
        np.testing.assert_allclose(
            found.columns[name][back], built.columns[name], rtol=2e-5, atol=2e-6, err_msg=name
        )
    for ours, theirs in ((found.positives, built.positives), (found.negatives, built.negatives)):
        assert ours.n_pairs == theirs.n_pairs
        pairs = hit_id[ours.as_edges()].astype(np.int64)
        expected = built.hit_id[theirs.as_edges()].astype(np.int64)
        np.testing.assert_array_equal(
            np.sort(pairs[0] << 32 | pairs[1]), np.sort(expected[0] << 32 | expected[1])
        )


def build_published(folder):
    source = open_tracking(folder, TrackingConfig(pairs=PairChoice("published")), events=EventRange(most=1))
    ((_, (built,)),) = source.read_clouds(source.list_events())
    return built


def test_an_event_in_the_authors_layout_equals_our_build(tmp_path, trackml_events, read_by_pandas):
    """The published features, labels and pairs by pandas, imported, are the event as we build it."""
    event = read_by_pandas(trackml_events)
    scales = [1e-3, 1 / np.pi, 1e-3, 1, 1e3, 1e3, *[1] * 8]
    names = [
        "r",
        "phi",
        "z",
        "eta",
        "u",
        "v",
        "charge_frac",
        "leta",
        "lphi",
        "lx",
        "ly",
        "lz",
        "geta",
        "gphi",
    ]
    pos = event[["eta", "phi"]].to_numpy(np.float32)
    arrays = {
        "x": (event[names].to_numpy() * scales).astype(np.float32),
        "pos": pos,
        "eta": event.particle_eta.to_numpy(np.float32),
        "pt": event.pt.to_numpy(np.float32),
        "reconstructable": event.is_reconstructable.to_numpy(np.int64),
        "point_pairs_index_rad": list_pairs(*pos.T, event.particle_id.to_numpy()),
    }
    arrays |= {name: event[name].to_numpy() for name in ("layer", "particle_id", "n_hits", "n_layers_hit")}
    torch.save({name: torch.tensor(values) for name, values in arrays.items()}, tmp_path / "data1_s0.pt")
    found = import_file(tmp_path)
    assert_built(found, event.hit_id.to_numpy()[found.index_in_source], build_published(trackml_events))


def test_the_authors_event_equals_our_build(tmp_path, real_file):
    """The real event as the authors' code makes it, imported, is the event as built from its CSV files."""
    golden = np.load(real_file("golden/event1_pixel_one_sector.npz"))
    names = ("x", "pos", "layer", "particle_id", "pt", "reconstructable", "n_hits", "n_layers_hit")
    tensors = {name: torch.from_numpy(golden[name]) for name in names}
    tensors |= {
        "eta": torch.from_numpy(golden["eta_pt"]),
        "point_pairs_index_rad": torch.from_numpy(golden["pairs"]),
    }
    torch.save(tensors, tmp_path / "data1_s0.pt")
    found = import_file(tmp_path)
    assert_built(found, golden["hit_id"][found.index_in_source], build_published(real_file("data/trackml")))
