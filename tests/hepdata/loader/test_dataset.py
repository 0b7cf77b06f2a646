"""Opening, indexing and describing datasets."""

import os
import pickle
import subprocess
import sys

import fsspec
import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.loader.split import MAX_OPEN_SHARDS


@pytest.fixture(params=["parquet", "hdf5"])
def dataset(request, tmp_path, make_dataset):
    make_dataset(tmp_path / "a", file_format=request.param)
    return hepdata.open_dataset(tmp_path / "a")


def test_clouds_by_index(dataset, make_cloud):
    split = dataset["train"]
    assert len(split) == 5
    assert len(dataset) == 8
    expected = make_cloud("tracking", 10 + 3 * 4, event_id=4)
    for cloud in (split[4], split[-1], split[np.int64(4)], split[3:][1], list(split)[4]):
        assert cloud.event_id == 4
        np.testing.assert_array_equal(cloud.eta, expected.eta)
        np.testing.assert_array_equal(cloud.negatives.idx, expected.negatives.idx)
        assert cloud.coords.shape == (22, 6)


def test_index_out_of_range(dataset):
    with pytest.raises(IndexError, match="cloud 5 of 5 in split 'train'"):
        dataset["train"][5]


def test_some_columns_only(dataset):
    cloud = dataset["train"].read(1, ["phi", "eta"], pairs=False)
    assert list(cloud.columns) == ["phi", "eta"]
    assert cloud.positives is None


def test_only_the_bytes_asked_for_are_read(tmp_path, make_dataset, monkeypatch):
    make_dataset(tmp_path / "a")
    split = hepdata.open_dataset(tmp_path / "a")["train"]
    split.read(0)
    system = split._readers[0]._system
    n_bytes = []
    original = system.cat_file
    monkeypatch.setattr(
        system, "cat_file", lambda path, start, end: n_bytes.append(end - start) or original(path, start, end)
    )
    split.read(1)
    whole = sum(n_bytes)
    n_bytes.clear()
    split.read(1, pairs=False)
    without = sum(n_bytes)
    assert list(split.read(1, ["eta"]).columns) == ["eta"]
    n_bytes.clear()
    split.read(1, ["eta"], pairs=False)
    assert sum(n_bytes) < without / 10
    assert without < whole < split.shards[0].bytes / 3


def test_unknown_names_get_advice(dataset):
    with pytest.raises(InputError, match=r"split 'trian'.*did you mean 'train'"):
        dataset["trian"]
    with pytest.raises(InputError, match=r"column 'ete'.*did you mean 'eta'"):
        dataset["train"].read(0, ["ete"])


def test_no_dataset(tmp_path):
    with pytest.raises(InputError, match=r"found no dataset\.json; .*build the dataset first"):
        hepdata.open_dataset(tmp_path / "nothing")


def test_rows_without_reading_clouds(dataset):
    rows = dataset["train"].rows()
    assert rows["event_id"].tolist() == [0, 1, 2, 3, 4]
    assert rows["n_points"].tolist() == [10, 13, 16, 19, 22]


def test_importing_and_opening_without_torch(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    program = (
        "import sys, hepdata; d = hepdata.open_dataset(sys.argv[1]); d.info(); d['train'][0]; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=True)


def test_opening_reads_the_manifest_only(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    for path in (tmp_path / "a").glob("*.parquet"):
        path.unlink()
    dataset = hepdata.open_dataset(tmp_path / "a")
    assert len(dataset["train"]) == 5
    assert "point clouds" in str(dataset.info())


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_urls(tmp_path, make_dataset, file_format):
    make_dataset(tmp_path / "a", file_format=file_format)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "a"), f"/{file_format}", recursive=True)
    local = hepdata.open_dataset(tmp_path / "a")
    for url in (f"memory://{file_format}", f"file://{tmp_path}/a"):
        remote = hepdata.open_dataset(url)
        assert remote.fingerprint == local.fingerprint
        np.testing.assert_array_equal(remote["train"][3].eta, local["train"][3].eta)
        np.testing.assert_array_equal(remote["train"][3].positives.idx, local["train"][3].positives.idx)
    memory.rm(f"/{file_format}", recursive=True)


def test_missing_remote_dataset():
    with pytest.raises(InputError, match=r"memory://nowhere: found no dataset\.json"):
        hepdata.open_dataset("memory://nowhere")


@pytest.mark.parametrize("url", ["nonsense://a/b", "s3://bucket/dataset"])
def test_addresses_that_cannot_be_read(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=f"{url}: found a location that cannot be read"):
        hepdata.open_dataset(url)


def test_splits_travel_to_other_processes(dataset):
    split = pickle.loads(pickle.dumps(dataset["train"]))
    assert split[2].event_id == 2


def test_forked_process_reads_on(dataset):
    split = dataset["train"]
    expected = split[2].eta.sum()
    child = os.fork()
    if not child:
        os._exit(0 if split[2].eta.sum() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_files_in_use_are_limited(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", "pileup", rows={"train": [1] * (MAX_OPEN_SHARDS + 6)})
    split = hepdata.open_dataset(tmp_path / "a")["train"]
    assert [cloud.event_id for cloud in split] == list(range(MAX_OPEN_SHARDS + 6))
    assert len(split._readers) == MAX_OPEN_SHARDS
    assert split[0].event_id == 0


def test_repr_says_what_it_is(dataset):
    assert "tracking" in repr(dataset)
    assert "train 5" in repr(dataset)
    assert "5 clouds" in repr(dataset["train"])
