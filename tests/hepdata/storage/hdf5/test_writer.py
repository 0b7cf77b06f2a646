"""HDF5 holds the same clouds, and gives back the same Parquet bytes."""

import h5py
import numpy as np
import pytest

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.manifest import Manifest


def assert_same_clouds(first, second):
    assert first.splits == second.splits
    for split in first:
        assert len(first[split]) == len(second[split])
        for a, b in zip(first[split], second[split], strict=True):
            assert (a.event_id, a.sector, a.n_points) == (b.event_id, b.sector, b.n_points)
            assert list(a.columns) == list(b.columns)
            for name in a.columns:
                assert a.columns[name].dtype == b.columns[name].dtype
                np.testing.assert_array_equal(a.columns[name], b.columns[name])
            for left, right in ((a.positives, b.positives), (a.negatives, b.negatives)):
                assert (left is None) == (right is None)
                if left is not None:
                    np.testing.assert_array_equal(left.ptr, right.ptr)
                    np.testing.assert_array_equal(left.idx, right.idx)


def read_arrays(folder, pairs):
    cloud = open_dataset(folder)["train"].read(2, pairs=pairs)
    lists = {"pos": cloud.positives, "neg": cloud.negatives} if pairs else {}
    return cloud.columns | {
        f"{name}{i}": part for name, own in lists.items() for i, part in enumerate((own.ptr, own.idx))
    }


@pytest.mark.parametrize("task", ["tracking", "pileup"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_there_and_back_gives_the_same_bytes(tmp_path, make_dataset, task, compression):
    make_dataset(tmp_path / "a", task)
    convert_dataset(tmp_path / "a", tmp_path / "b", "hdf5", compression=compression)
    convert_dataset(tmp_path / "b", tmp_path / "c", "parquet")
    assert_same_clouds(open_dataset(tmp_path / "a"), open_dataset(tmp_path / "b"))
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "c").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()


def test_building_to_hdf5_is_building_and_converting(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    convert_dataset(tmp_path / "a", tmp_path / "b", "hdf5")
    make_dataset(tmp_path / "c", file_format="hdf5")
    assert (tmp_path / "b" / "train.h5").read_bytes() == (tmp_path / "c" / "train.h5").read_bytes()
    assert Manifest.read(tmp_path / "b") == Manifest.read(tmp_path / "c")


def test_layout_is_flat_arrays_and_offsets(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", file_format="hdf5")
    cloud = open_dataset(tmp_path / "a")["train"][2]
    with h5py.File(tmp_path / "a" / "train.h5") as file:
        begin, end = file["point_offsets"][2:4]
        np.testing.assert_array_equal(file["eta"][begin:end], cloud.eta)
        np.testing.assert_array_equal(file["pos_ptr"][begin + 2 : end + 3], cloud.positives.ptr)
        first, last = file["neg_offsets"][2:4]
        np.testing.assert_array_equal(file["neg_idx"][first:last], cloud.negatives.idx)
        assert file["r"].attrs["unit"] == "mm"


def test_split_without_clouds(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [2], "valid": [], "test": []}, file_format="hdf5")
    dataset = open_dataset(tmp_path / "a")
    assert [len(dataset[split]) for split in dataset] == [2, 0, 0]
    convert_dataset(tmp_path / "a", tmp_path / "b", "parquet")
    assert len(open_dataset(tmp_path / "b")["valid"]) == 0


def test_clouds_larger_than_a_chunk(tmp_path, make_cloud):
    from hepdata.schema import PILEUP
    from hepdata.storage.dataset.statistics import add_up, count_cloud
    from hepdata.storage.hdf5.reader import Hdf5Shard
    from hepdata.storage.hdf5.writer import POINT_CHUNK, Sizes, write_hdf5
    from hepdata.storage.location import open_location

    clouds = [make_cloud("pileup", n, event_id=n) for n in (POINT_CHUNK + 5, 0, 3, 2 * POINT_CHUNK)]
    sizes = Sizes.of(add_up([count_cloud(cloud) for cloud in clouds]))
    record = write_hdf5(tmp_path / "x.h5", clouds, PILEUP, has_pairs=False, sizes=sizes)
    reader = Hdf5Shard(open_location(tmp_path), record, PILEUP.columns)
    for row, cloud in enumerate(clouds):
        for name, values in reader.read(row, list(cloud.columns)).items():
            np.testing.assert_array_equal(values, cloud.columns[name])


def test_converting_to_the_same_format_is_refused(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    with pytest.raises(InputError, match="found a dataset in parquet already"):
        convert_dataset(tmp_path / "a", tmp_path / "b", "parquet")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("pairs", [True, False])
def test_local_arrays_read_at_their_position_are_those_of_h5py(tmp_path, make_dataset, monkeypatch, pairs):
    make_dataset(tmp_path / "a", file_format="hdf5")
    direct = read_arrays(tmp_path / "a", pairs)
    # Without preadv, as on Windows, h5py reads everything.
    monkeypatch.delattr("os.preadv")
    by_h5py = read_arrays(tmp_path / "a", pairs)
    assert direct.keys() == by_h5py.keys()
    for name, values in direct.items():
        assert values.dtype == by_h5py[name].dtype
        np.testing.assert_array_equal(values, by_h5py[name])
    monkeypatch.setattr("os.preadv", lambda *_: pytest.fail("read around h5py"), raising=False)
    with pytest.raises(pytest.fail.Exception, match="around h5py"):
        open_dataset(tmp_path / "a")["train"].read(0)


def test_a_file_cut_while_it_is_open_is_named(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", file_format="hdf5")
    split = open_dataset(tmp_path / "a")["train"]
    first = split[0]
    with (tmp_path / "a" / "train.h5").open("r+b") as file:
        file.truncate(len(first.eta))
    with pytest.raises(InputError, match=r"train\.h5: found damaged bytes in event"):
        split[0]
