"""Other libraries open the result themselves."""

import sys

import awkward as ak
import h5py
import numpy as np
import pandas as pd
import pytest

import hepdata
from hepdata.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_dataset):
    path = tmp_path_factory.mktemp("data") / "a"
    make_dataset(path)
    return path


@pytest.fixture(scope="module")
def split(folder):
    return hepdata.open_dataset(folder)["train"]


def test_awkward(split):
    array = split.to_awkward(pairs=True)
    assert len(array) == 5
    assert ak.num(array.eta).tolist() == [10, 13, 16, 19, 22]
    assert array.event_id.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(array[3].phi.to_numpy(), split[3].phi)
    assert array[2].negatives[4].tolist() == split[2].negatives.row(4).tolist()
    assert array.particle_id.type.content.content.primitive == "int64"


def test_awkward_of_some_columns(split):
    array = split.to_awkward(["pt"])
    assert array.fields == ["event_id", "sector", "n_points", "pt"]


def test_awkward_reads_the_bare_files(folder, split):
    array = ak.from_parquet(sorted(map(str, folder.glob("train-*.parquet"))))
    assert array.n_points.tolist() == [10, 13, 16, 19, 22]
    np.testing.assert_array_equal(array[4].eta.to_numpy(), split[4].eta)


def test_pandas(split):
    table = split.to_pandas()
    assert len(table) == 80
    assert table.index.names == ["event_id", "sector", "point"]
    np.testing.assert_array_equal(table.loc[(3, 0)].r.to_numpy(), split[3].r)
    assert table.particle_id.dtype == np.int64
    assert table.is_reconstructable.dtype == bool


def test_pandas_reads_the_bare_files(folder, split):
    table = pd.read_parquet(folder / "train-00001-of-00002.parquet")
    np.testing.assert_array_equal(table.neg_idx[1], split[4].negatives.idx)


def test_empty_split_as_table(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1], "valid": []})
    empty = hepdata.open_dataset(tmp_path / "a")["valid"]
    assert len(empty.to_pandas()) == 0
    assert len(empty.to_awkward(pairs=True)) == 0


def test_pyg_data_and_loader(split):
    pytest.importorskip("torch_geometric", reason="comes with the extra [dev]")
    from torch_geometric.loader import DataLoader

    dataset = split.to_pyg()
    assert len(dataset) == 5
    (own, *_) = split.loader()
    assert dataset[0].x.equal(own.features)
    assert dataset[0].pos.equal(own.coords)
    assert dataset[0].validate()
    batches = list(DataLoader(dataset, batch_size=2))
    ours = list(split.loader(batch_size=2))
    for theirs, own in zip(batches, ours, strict=True):
        assert theirs.x.equal(own.features)
        assert theirs.ptr.equal(own.offsets)
        assert theirs.batch.equal(own.cloud_index)
        assert theirs.particle_id.equal(own.particle_id)
        assert theirs.negative_index.equal(own.negatives.as_edges())


def test_pyg_is_optional(split, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    monkeypatch.delitem(sys.modules, "hepdata.loader.interop_pyg", raising=False)
    with pytest.raises(InputError, match=r"pip install 'hept\[interop\]'"):
        split.to_pyg()


def test_pyg_loader_with_processes(split):
    pytest.importorskip("torch_geometric", reason="comes with the extra [dev]")
    from torch_geometric.loader import DataLoader

    loader = DataLoader(split.to_pyg(features=["eta"], pairs=False), batch_size=2, num_workers=2)
    assert [batch.event_id.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


def test_hugging_face_datasets_finds_the_splits(folder, split, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="comes with the extra [dev]")
    found = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    # "validation" is their name for the split.
    assert {name: part.num_rows for name, part in found.items()} == {"train": 5, "validation": 2, "test": 1}
    row = found["train"][3]
    assert row["event_id"] == 3
    np.testing.assert_array_equal(np.array(row["eta"], np.float32), split[3].eta)
    assert row["pos_idx"] == split[3].positives.idx.tolist()
    assert row["particle_id"] == split[3].particle_id.tolist()


def test_polars(folder, split):
    pl = pytest.importorskip("polars", reason="comes with the extra [dev]")
    table = pl.read_parquet(folder / "train-*.parquet")
    assert table["n_points"].to_list() == [10, 13, 16, 19, 22]
    np.testing.assert_array_equal(table["eta"][2].to_numpy(), split[2].eta)
    assert table["particle_id"][2].to_list() == split[2].particle_id.tolist()
    assert table["is_reconstructable"][2].to_list() == split[2].is_reconstructable.tolist()
    assert table["neg_idx"][4].to_list() == split[4].negatives.idx.tolist()


def test_duckdb(folder, split):
    duckdb = pytest.importorskip("duckdb", reason="comes with the extra [dev]")
    rows = duckdb.sql(
        f"select event_id, len(eta), list_sum(pt), neg_idx, is_reconstructable, r "
        f"from '{folder}/train-*.parquet' order by event_id"
    ).fetchall()
    assert [row[:2] for row in rows] == [(i, 10 + 3 * i) for i in range(5)]
    assert rows[1][2] == pytest.approx(float(split[1].pt.astype(float).sum()), rel=1e-5)
    assert rows[4][3] == split[4].negatives.idx.tolist()
    assert rows[4][4] == split[4].is_reconstructable.tolist()
    np.testing.assert_array_equal(np.array(rows[4][5], np.float32), split[4].r)


def test_torch_dataloader_takes_a_split(split):
    from torch.utils.data import DataLoader

    loader = DataLoader(split, batch_size=None, num_workers=2, collate_fn=lambda cloud: cloud.event_id)
    assert list(loader) == [0, 1, 2, 3, 4]


def test_padded_file(split, tmp_path):
    assert split.to_padded_hdf5(tmp_path / "x.h5") == 0
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["particle_features"].shape == (5, 22, 16)
        assert list(file["particle_features"].attrs["names"][:2]) == ["r", "phi"]
        assert file["mask"][:].sum(axis=1).tolist() == [10, 13, 16, 19, 22]
        (batch, *_) = split.loader()
        np.testing.assert_array_equal(file["particle_features"][0, :10, :15], batch.features.numpy())
        assert not file["particle_features"][0, 10:].any()
        np.testing.assert_array_equal(file["particle_id"][1, :13], split[1].particle_id)
        assert file["event_features"][2].tolist() == [2, 0, 16]


def test_padded_file_keeps_the_hardest(split, tmp_path):
    assert split.to_padded_hdf5(tmp_path / "x.h5", max_points=12) == 1 + 4 + 7 + 10
    with h5py.File(tmp_path / "x.h5") as file:
        kept = file["pt"][4]
    assert sorted(kept) == sorted(split[4].pt)[-12:]


def test_padded_file_is_not_overwritten(split, tmp_path):
    (tmp_path / "x.h5").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.h5: found an existing file"):
        split.to_padded_hdf5(tmp_path / "x.h5")
    with pytest.raises(InputError, match="max_points: found 0"):
        split.to_padded_hdf5(tmp_path / "y.h5", max_points=0)
