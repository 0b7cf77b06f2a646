"""Validation finds damage, and names its place."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import InputError
from hepdata.schema import SCHEMAS
from hepdata.storage.dataset.cloud_checks import check_cloud
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.finish import finish_dataset
from hepdata.storage.dataset.manifest import _as_text
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.dataset.validate import validate_dataset
from hepdata.storage.parquet.writer import write_shard


@pytest.fixture
def clean_cloud(make_cloud):
    """A factory of clouds in which nothing is wrong."""

    def make(task="tracking", n_points=20, *, event_id=1, sector=0):
        cloud = make_cloud(task, n_points, event_id=event_id, sector=sector)
        columns = dict(cloud.columns)
        if task == "tracking":
            columns["pt"] = np.where(cloud.particle_id > 0, cloud.particle_id % 7 + 1, 0).astype(np.float32)
        else:
            columns["pt"] = np.abs(cloud.pt)
            columns["is_scored"] = cloud.is_scored & (cloud.charge == 0)
        return PointCloud(task, event_id, sector, columns, cloud.positives, cloud.negatives)

    return make


@pytest.fixture
def store(tmp_path):
    """Write lists of clouds as the splits of a dataset."""

    def write(task="tracking", **splits):
        staging = tmp_path / "staging"
        staging.mkdir()
        records = {
            split: [write_shard(staging / f"{split}-00000-of-00001.parquet", clouds, SCHEMAS[task])]
            for split, clouds in splits.items()
        }
        finish_dataset(staging, tmp_path / "a", schema=SCHEMAS[task], splits=records, configuration={})
        return tmp_path / "a"

    return write


def problems_of(folder):
    return [str(finding) for finding in validate_dataset(folder)]


@pytest.mark.parametrize("task", ["tracking", "pileup"])
def test_nothing_to_find(store, clean_cloud, task):
    folder = store(task, train=[clean_cloud(task, event_id=1), clean_cloud(task, event_id=2)])
    assert problems_of(folder) == []


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_every_flipped_byte_is_found(tmp_path, store, clean_cloud, file_format):
    folder = store("pileup", train=[clean_cloud("pileup")])
    if file_format == "hdf5":
        convert_dataset(folder, tmp_path / "b", "hdf5")
        folder = tmp_path / "b"
    assert problems_of(folder) == []
    random = np.random.default_rng(1)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for position in random.choice(len(content), 25, replace=False):
            damaged = bytearray(content)
            damaged[position] ^= 1 << int(random.integers(8))
            path.write_bytes(damaged)
            try:
                findings = validate_dataset(folder)
            except InputError as error:
                # This byte change raised the format version.
                assert "format version" in str(error)  # noqa: PT017
                continue
            assert path.name in {finding.shard for finding in findings}
        path.write_bytes(content)


def test_files_that_should_and_should_not_be_there(store, clean_cloud):
    folder = store(train=[clean_cloud(event_id=1)], test=[clean_cloud(event_id=2)])
    (folder / "test-00000-of-00001.parquet").rename(folder / "more.parquet")
    first, second = problems_of(folder)
    assert first == "more.parquet: a data file that the manifest does not list; remove it"
    assert second.startswith("test-00000-of-00001.parquet: no such file; copy")


def test_splits_that_leak(store, clean_cloud):
    folder = store(
        train=[clean_cloud(event_id=7, sector=0)], valid=[clean_cloud(event_id=7, sector=1, n_points=21)]
    )
    (finding,) = problems_of(folder)
    assert (
        "valid-00000-of-00001.parquet, event 7, sector 1: an event of split train in split valid" in finding
    )


def test_events_twice(store, clean_cloud):
    cloud = clean_cloud(event_id=3)
    copy = PointCloud("tracking", 4, 0, cloud.columns, cloud.positives, cloud.negatives)
    folder = store(train=[cloud, cloud, copy])
    first, second = problems_of(folder)
    assert "event 3, sector 0: the same event and sector as in" in first
    assert "event 4, sector 0: the same points as event 3, sector 0" in second


def test_manifest_that_counts_otherwise(store, clean_cloud):
    folder = store(train=[clean_cloud(event_id=1)])
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    content["splits"]["train"][0]["event_ids"] = [2]
    (folder / MANIFEST_NAME).write_bytes(_as_text(content))
    (problem,) = problems_of(folder)
    assert "clouds that are not those that the manifest counts" in problem


def test_manifest_with_other_columns(store, clean_cloud):
    folder = store("pileup", train=[clean_cloud("pileup")])
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    content["columns"][9]["name"] = "charm"
    (folder / MANIFEST_NAME).write_bytes(_as_text(content))
    assert any("other columns than the manifest's" in problem for problem in problems_of(folder))


def test_newer_format_is_not_a_finding(store, clean_cloud):
    folder = store(train=[clean_cloud()])
    content = json.loads((folder / MANIFEST_NAME).read_text())
    content.pop("checksum")
    (folder / MANIFEST_NAME).write_bytes(_as_text(content | {"format_version": 99}))
    with pytest.raises(InputError, match="found format version 99"):
        validate_dataset(folder)


def change(columns, name, place, value):
    values = columns[name].copy()
    values[place] = value
    return {**columns, name: values}


@pytest.mark.parametrize(
    ("task", "name", "value", "problem"),
    [
        ("tracking", "z", np.nan, "1 values of z are NaN or infinite"),
        ("tracking", "eta", np.inf, "1 values of eta are NaN or infinite"),
        ("tracking", "phi", 3.2, "φ of 3.2 outside"),
        ("pileup", "eta", -21.0, "η| of 21 above 20"),
        ("tracking", "particle_id", -1, "negative particle_id"),
        ("pileup", "pid_class", 8, "pid_class outside 0 … 7"),
        ("pileup", "pt", -0.5, "negative pt"),
    ],
)
def test_values_that_cannot_be(clean_cloud, task, name, value, problem):
    cloud = clean_cloud(task)
    spoiled = PointCloud(task, 1, 0, change(cloud.columns, name, 5, value))
    found = list(check_cloud(spoiled, 20, SCHEMAS[task].columns))
    assert problem in " ".join(text for text, _ in found)
    assert all(remedy for _, remedy in found)


def test_ids_that_are_not_unique(clean_cloud):
    for task, name in (("tracking", "hit_id"), ("pileup", "index_in_source")):
        cloud = clean_cloud(task)
        spoiled = PointCloud(task, 1, 0, change(cloud.columns, name, 0, cloud.columns[name][1]))
        assert [text for text, _ in check_cloud(spoiled, 20)] == [f"{name} is not unique"]


def test_labels_that_contradict(clean_cloud):
    cloud = clean_cloud()
    noise = int(np.flatnonzero(cloud.particle_id == 0)[0])
    spoiled = PointCloud("tracking", 1, 0, change(cloud.columns, "is_reconstructable", noise, True))
    assert [text for text, _ in check_cloud(spoiled, 20)] == ["noise that is reconstructable"]
    particle = int(np.flatnonzero(cloud.particle_id > 0)[0])
    spoiled = PointCloud("tracking", 1, 0, change(cloud.columns, "is_reconstructable", particle, False))
    assert "only some points are reconstructable" in next(check_cloud(spoiled, 20))[0]
    spoiled = PointCloud("tracking", 1, 0, change(cloud.columns, "pt", particle, 99.0))
    assert "a particle with several values of pt" in next(check_cloud(spoiled, 20))[0]
    pileup = clean_cloud("pileup")
    columns = change(change(pileup.columns, "charge", 2, 1), "is_scored", 2, True)
    assert "charged points that are scored" in next(check_cloud(PointCloud("pileup", 1, 0, columns), 20))[0]


def test_lengths_that_differ(clean_cloud):
    cloud = clean_cloud("pileup")
    assert "columns of other lengths than 19 points" in next(check_cloud(cloud, 19))[0]


def replace_negatives(cloud, ptr=None, idx=None):
    pairs = PairList(cloud.negatives.ptr if ptr is None else ptr, cloud.negatives.idx if idx is None else idx)
    return PointCloud("tracking", 1, 0, cloud.columns, cloud.positives, pairs)


def test_pair_lists_against_points(clean_cloud):
    cloud = clean_cloud()
    ptr, idx = cloud.negatives.ptr, cloud.negatives.idx

    def problem(changed):
        return next(check_cloud(changed, 20))[0]

    assert "neg_ptr does not divide" in problem(replace_negatives(cloud, ptr=ptr[:-1]))
    backwards = ptr.copy()
    backwards[3] = 0
    assert "neg_ptr does not divide" in problem(replace_negatives(cloud, ptr=backwards))
    assert "in a cloud of 20 points" in problem(
        replace_negatives(cloud, idx=np.where(idx == idx[0], 20, idx))
    )
    swapped = idx.copy()
    swapped[:2] = swapped[1::-1]
    assert "does not ascend" in problem(replace_negatives(cloud, idx=swapped))
    own = PairList(np.array([0] + [1] * 20, np.int32), np.array([0], np.int32))
    texts = [text for text, _ in check_cloud(replace_negatives(cloud, own.ptr, own.idx), 20)]
    assert "a point in its own neg_idx" in texts
    exchanged = PointCloud("tracking", 1, 0, cloud.columns, cloud.negatives, cloud.positives)
    texts = [text for text, _ in check_cloud(exchanged, 20)]
    assert any("positive pairs of different particles" in text for text in texts)
    assert any("negative pairs of the same particle" in text for text in texts)


def test_sectors_of_one_event_may_hold_the_same_points(store, clean_cloud):
    first = clean_cloud("pileup")
    again = replace(first, sector=first.sector + 1)
    assert problems_of(store("pileup", train=[first, again])) == []
