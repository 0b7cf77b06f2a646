"""What a build makes: every cloud, whatever the workers, format and shards; and impossible requests."""

import os

import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError, JobError
from hepdata.pipeline.build import SplitRule, build_dataset
from hepdata.pipeline.tracking_source import TRACKING_PRESETS
from hepdata.storage.dataset.manifest import Manifest

SIXTY = TRACKING_PRESETS["tracking-60k"]


def test_a_build_has_every_cloud_of_its_source(tracking_source, undisturbed):
    dataset = hepdata.open_dataset(undisturbed.out)
    stored = [dataset[split][i] for split in ("train", "valid", "test") for i in range(len(dataset[split]))]
    expected = [
        cloud for _, clouds in tracking_source.read_clouds(tracking_source.list_events()) for cloud in clouds
    ]
    assert [cloud.event_id for cloud in stored] == [cloud.event_id for cloud in expected]
    for ours, theirs in zip(stored, expected, strict=True):
        assert all(np.array_equal(ours.columns[name], theirs.columns[name]) for name in theirs.columns)
        for kind in ("positives", "negatives"):
            assert np.array_equal(getattr(ours, kind).ptr, getattr(theirs, kind).ptr)
            assert np.array_equal(getattr(ours, kind).idx, getattr(theirs, kind).idx)


def test_the_summary_counts_what_is_there(undisturbed):
    manifest = Manifest.read(undisturbed.out)
    totals = manifest.statistics()
    assert (undisturbed.n_events, undisturbed.n_clouds) == (6, 6)
    assert undisturbed.n_points == totals.n_points > 6 * 100
    assert undisturbed.n_particles == totals.counts["particles"]
    assert undisturbed.n_positives + undisturbed.n_negatives == totals.n_positives + totals.n_negatives
    assert undisturbed.n_bytes == sum(path.stat().st_size for path in undisturbed.out.glob("*.parquet"))
    assert undisturbed.skipped == ()


def test_the_manifest_tells_configuration_and_sources(undisturbed, trackml_events):
    manifest = Manifest.read(undisturbed.out)
    assert manifest.configuration["source"]["pairs"] == {
        "definition": "paper",
        "n_negatives": 256,
        "radius": 1.0,
    }
    assert manifest.configuration["source"]["clouds"]["min_pt"] is None
    assert manifest.configuration["splits"] == {"shares": [80.0, 10.0, 10.0]}
    assert {file.name for file in manifest.sources} == {path.name for path in trackml_events.iterdir()}


def test_progress_counts_every_event(tracking_source, tmp_path, listen):
    listener = listen()
    build_dataset(tracking_source, tmp_path / "dataset", progress=listener)
    assert (listener.total, listener.done, listener.is_finished) == (6, 6, True)


def test_four_workers_write_the_same_bytes_as_one(tracking_source, tmp_path, same_bytes, listen):
    listener = listen()
    build_dataset(tracking_source, tmp_path / "dataset", workers=4, progress=listener)
    assert listener.done == 6
    same_bytes(tmp_path / "dataset")


def test_hdf5_holds_the_same_clouds(tracking_source, tmp_path, undisturbed):
    build_dataset(tracking_source, tmp_path / "dataset", file_format="hdf5")
    assert sorted(path.name for path in (tmp_path / "dataset").iterdir()) == [
        "dataset.json",
        "test.h5",
        "train.h5",
        "valid.h5",
    ]
    ours, theirs = hepdata.open_dataset(tmp_path / "dataset"), hepdata.open_dataset(undisturbed.out)
    for i in range(len(theirs["train"])):
        assert np.array_equal(ours["train"][i].hit_id, theirs["train"][i].hit_id)
        assert np.array_equal(ours["train"][i].negatives.idx, theirs["train"][i].negatives.idx)


def test_splits_and_shards_by_request(tracking_source, tmp_path):
    build_dataset(tracking_source, tmp_path / "dataset", split=SplitRule.parse("0/0/100"), events_per_shard=4)
    shards = Manifest.read(tmp_path / "dataset").splits
    assert {split: [record.rows for record in records] for split, records in shards.items()} == {
        "test": [4, 2]
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "`workers`: found 0; expected at least 1"),
        ({"events_per_shard": 0}, "`events_per_shard`: found 0"),
        ({"scheduler": "tcp://nowhere:1"}, "`scheduler`: found 'tcp://nowhere:1' with `engine='local'`"),
    ],
)
def test_impossible_requests(tracking_source, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        build_dataset(tracking_source, tmp_path / "dataset", **options)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tracking_source, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(JobError, match="cannot be written"):
        build_dataset(tracking_source, tmp_path / "dataset")


def test_a_link_to_an_empty_folder_is_filled(tracking_source, tmp_path, same_bytes):
    (tmp_path / "disk" / "set").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    link = tmp_path / "home" / "set"
    link.symlink_to(tmp_path / "disk" / "set")
    build_dataset(tracking_source, link)
    same_bytes(tmp_path / "disk" / "set")
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["set"]
