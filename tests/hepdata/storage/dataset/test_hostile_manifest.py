"""Hostile manifests: refused in one line before any file that they name is touched."""

import json
import os

import fsspec
import pytest

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hepdata.storage.dataset.manifest import _as_text
from hepdata.storage.dataset.merge import merge_datasets
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.validate import validate_dataset


def set_at(content, path, value):
    *parents, last = path
    for key in parents:
        content = content[key]
    content[last] = value


def rename_split(content, name):
    for part in ("splits", "totals"):
        content[part] = {name if key == "train" else key: value for key, value in content[part].items()}


SHARD = ("splits", "train", 0)
HOSTILE = {
    "name with ..": lambda c: set_at(c, (*SHARD, "name"), "../../etc/passwd"),
    "absolute name": lambda c: set_at(c, (*SHARD, "name"), "/etc/passwd.parquet"),
    "hidden name": lambda c: set_at(c, (*SHARD, "name"), ".x.parquet"),
    "name with a line end": lambda c: set_at(c, (*SHARD, "name"), "x.parquet\n"),
    "name of another format": lambda c: set_at(c, (*SHARD, "name"), "train.h5"),
    "URL as name": lambda c: set_at(c, (*SHARD, "name"), "memory://x.parquet"),
    "same file twice": lambda c: set_at(c, (*SHARD, "name"), c["splits"]["valid"][0]["name"]),
    "split with ..": lambda c: rename_split(c, "../../out"),
    "split with a slash": lambda c: rename_split(c, "a/b"),
    "empty split name": lambda c: rename_split(c, ""),
    "huge footer": lambda c: set_at(c, (*SHARD, "footer_bytes"), 10**15),
    "footer beyond 64 bits": lambda c: set_at(c, (*SHARD, "footer_bytes"), 10**30),
    "negative size": lambda c: set_at(c, (*SHARD, "bytes"), -1),
    "negative rows": lambda c: set_at(c, (*SHARD, "rows"), -1),
    "huge rows": lambda c: set_at(c, (*SHARD, "rows"), 10**15),
    "no checksum": lambda c: set_at(c, (*SHARD, "sha256"), ""),
    "event beyond int64": lambda c: set_at(c, (*SHARD, "event_ids", 0), 2**63),
    "negative part": lambda c: set_at(c, (*SHARD, "rows_per_part"), [-1, 4]),
    "parts that do not add up": lambda c: set_at(c, (*SHARD, "rows_per_part"), [1]),
    "unknown type": lambda c: set_at(c, ("columns", 3, "dtype"), "V1000000000"),
    "object type": lambda c: set_at(c, ("columns", 3, "dtype"), "O"),
    "column twice": lambda c: set_at(c, ("columns", 3, "name"), "eta"),
    "column of ours": lambda c: set_at(c, ("columns", 3, "name"), "pos_ptr"),
    "column with a slash": lambda c: set_at(c, ("columns", 3, "name"), "../x"),
    "column with a line end": lambda c: set_at(c, ("columns", 3, "name"), "module_id\n"),
    "formula as unit": lambda c: set_at(c, ("columns", 3, "unit"), "$\\frac$"),
    "huge classes": lambda c: set_at(c, ("columns", 3, "n_classes"), 10**12),
    "NaN period": lambda c: set_at(c, ("columns", 3, "period"), float("nan")),
    "NaN scale": lambda c: set_at(c, ("features", 0, "scale"), float("nan")),
    "feature without column": lambda c: set_at(c, ("features", 0, "column"), "theta"),
    "empty totals": lambda c: set_at(c, ("totals",), {}),
    "totals of other splits": lambda c: set_at(c, ("totals",), {"x": c["totals"]["train"]}),
    "totals that do not add up": lambda c: set_at(c, ("totals", "train", "n_points"), 10**18),
    "infinite total": lambda c: set_at(c, ("totals", "train", "columns", "eta", "total"), float("inf")),
    "negative count": lambda c: set_at(c, ("totals", "train", "counts", "particles"), -5),
    "deep configuration": lambda c: set_at(c, ("task",), ["x"]),
}


def make_hostile(folder, change):
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    change(content)
    (folder / MANIFEST_NAME).write_bytes(_as_text(content))


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_is_refused_wherever_it_is_read(tmp_path, make_dataset, change):
    make_dataset(tmp_path / "a")
    make_dataset(tmp_path / "b", first_event=50)
    make_hostile(tmp_path / "b", change)
    with pytest.raises(
        InputError, match=r"b/dataset\.json: found .* expected a manifest as hept-data writes"
    ):
        open_dataset(tmp_path / "b")
    with pytest.raises(InputError, match=r"b/dataset\.json"):
        merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert [finding.shard for finding in validate_dataset(tmp_path / "b")] == [MANIFEST_NAME]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_is_refused_at_a_url(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    make_hostile(tmp_path / "a", HOSTILE["name with .."])
    fsspec.filesystem("memory").pipe("/hostile/dataset.json", (tmp_path / "a" / MANIFEST_NAME).read_bytes())
    with pytest.raises(InputError, match=r"memory://hostile/dataset\.json: found an invalid manifest"):
        open_dataset("memory://hostile")


def test_deep_nesting(tmp_path):
    (tmp_path / MANIFEST_NAME).write_text('{"format_version": ' + "[" * 200_000)
    with pytest.raises(InputError, match="text that is no manifest"):
        open_dataset(tmp_path)


def test_a_pipe_in_place_of_the_manifest(tmp_path):
    os.mkfifo(tmp_path / MANIFEST_NAME)
    with pytest.raises(InputError, match="something that is not a file"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_a_file_with_other_columns_than_the_manifest_lists(tmp_path, make_dataset, file_format):
    make_dataset(tmp_path / "a", file_format=file_format)
    make_hostile(tmp_path / "a", lambda content: set_at(content, ("has_pairs",), False))
    make_hostile(tmp_path / "a", lambda content: content["columns"].pop(3))
    if file_format == "parquet":
        with pytest.raises(InputError, match="other columns or rows than the manifest's"):
            open_dataset(tmp_path / "a")["train"][0]
    assert validate_dataset(tmp_path / "a")
