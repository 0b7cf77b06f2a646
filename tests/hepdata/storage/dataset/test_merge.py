"""Merging: all clouds of all datasets, or a refusal that says why."""

import json

import pytest

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.storage.dataset.manifest import _as_text
from hepdata.storage.dataset.merge import merge_datasets
from hepdata.storage.dataset.names import MANIFEST_NAME


def rewrite(folder, **changes):
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    (folder / MANIFEST_NAME).write_bytes(_as_text(content | changes))


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_all_clouds_of_both(tmp_path, make_dataset, file_format):
    make_dataset(tmp_path / "a", file_format=file_format)
    make_dataset(
        tmp_path / "b",
        rows={"train": [2, 1], "valid": [], "test": [1]},
        file_format=file_format,
        first_event=50,
    )
    merged = merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    dataset = open_dataset(tmp_path / "c")
    assert [cloud.event_id for cloud in dataset["train"]] == [0, 1, 2, 3, 4, 50, 51, 52]
    assert [cloud.event_id for cloud in dataset["valid"]] == [5, 6]
    assert [cloud.event_id for cloud in dataset["test"]] == [7, 53]
    assert merged.statistics().n_clouds == 12
    if file_format == "parquet":
        assert (
            sorted(path.name for path in (tmp_path / "c").glob("train-*"))[3]
            == "train-00003-of-00004.parquet"
        )


def test_order_of_arguments_is_the_order_of_clouds(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1]})
    make_dataset(tmp_path / "b", rows={"train": [1]}, first_event=9)
    merge_datasets([tmp_path / "b", tmp_path / "a"], tmp_path / "c")
    assert [cloud.event_id for cloud in open_dataset(tmp_path / "c")["train"]] == [9, 0]


def test_common_events_are_refused(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=6)
    with pytest.raises(InputError, match=r"split train: found event 6, which is in split valid of .*a too"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"task": "pileup"}, "task"),
        ({"file_format": "hdf5"}, "file format"),
        ({"pairs": False}, "choice of pairs"),
    ],
)
def test_different_datasets_are_refused(tmp_path, make_dataset, arguments, what):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=50, **arguments)
    with pytest.raises(InputError, match=f"b: found another {what}"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_other_configuration_is_refused(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=50)
    rewrite(tmp_path / "a", configuration={"source": {"n_negatives": 256}})
    rewrite(tmp_path / "b", configuration={"source": {"n_negatives": 64}})
    with pytest.raises(InputError, match=r"another configuration \(\{'n_negatives': 64\}\).*256"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_one_dataset_is_not_enough(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    with pytest.raises(InputError, match="found 1 dataset; expected at least two"):
        merge_datasets([tmp_path / "a"], tmp_path / "c")


def test_copied_shards_keep_their_version(tmp_path, make_dataset):
    for name, first in (("a", 0), ("b", 50)):
        make_dataset(tmp_path / name, first_event=first)
        rewrite(tmp_path / name, format_version=2)
    assert merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c").format_version == 2


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_damage_is_not_copied(tmp_path, make_dataset, file_format):
    make_dataset(tmp_path / "a", file_format=file_format)
    make_dataset(tmp_path / "b", file_format=file_format, first_event=50)
    path = next(path for path in sorted((tmp_path / "b").iterdir()) if path.name.startswith("train"))
    content = bytearray(path.read_bytes())
    eta = open_dataset(tmp_path / "b")["train"][0].columns["eta"].tobytes()
    content[content.index(eta) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"b/{path.name}: found .*(another checksum|damaged bytes)"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_missing_file_is_named(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=50)
    (tmp_path / "b" / "valid-00000-of-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"b/valid-00000-of-00001\.parquet: found no such file"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
