import errno
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError, JobError
from hepdata.pipeline.run import SplitRule, build_dataset
from hepdata.pipeline.staging import staging_of
from hepdata.pipeline.tracking import TRACKING_PRESETS, open_tracking
from hepdata.storage.lock import lock_output
from hepdata.storage.manifest import Manifest

SIXTY = TRACKING_PRESETS["tracking-60k"]


class Listener:
    """Hears what a build says of itself, and may stop it."""

    def __init__(self, stop_after=None):
        self.total, self.done, self.is_finished, self.stop_after = None, 0, False, stop_after

    def start(self, description, total, unit):
        self.total = total

    def advance(self, steps=1, note=""):
        self.done += steps
        if self.stop_after is not None and self.done >= self.stop_after:
            raise KeyboardInterrupt

    def finish(self):
        self.is_finished = True


def hold_lock(out, is_held, may_go):
    with lock_output(Path(out)):
        is_held.set()
        may_go.wait(60)


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
    assert manifest.configuration["source"]["pt_threshold"] == 0.9
    assert manifest.configuration["splits"] == {"shares": [80.0, 10.0, 10.0]}
    assert {file.name for file in manifest.sources} == {path.name for path in trackml_events.iterdir()}


def test_progress_counts_every_event(tracking_source, tmp_path):
    listener = Listener()
    build_dataset(tracking_source, tmp_path / "dataset", progress=listener)
    assert (listener.total, listener.done, listener.is_finished) == (6, 6, True)


def test_four_workers_write_the_same_bytes_as_one(tracking_source, tmp_path, same_bytes):
    listener = Listener()
    build_dataset(tracking_source, tmp_path / "dataset", workers=4, progress=listener)
    assert listener.done == 6
    same_bytes(tmp_path / "dataset")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_that_is_stopped_goes_on_where_it_was(tracking_source, tmp_path, same_bytes, workers):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, workers=workers, progress=Listener(stop_after=3))
    assert not out.exists()
    assert multiprocessing.active_children() == []
    listener = Listener()
    summary = build_dataset(tracking_source, out, progress=listener)
    assert summary.n_resumed >= 2
    assert listener.total == 6 - summary.n_resumed
    same_bytes(out)


def test_a_finished_build_is_left_alone(tracking_source, tmp_path):
    first = build_dataset(tracking_source, tmp_path / "dataset")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "dataset").iterdir()}
    second = build_dataset(tracking_source, tmp_path / "dataset", workers=3)
    assert second.was_finished
    assert second.fingerprint == first.fingerprint
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "dataset").iterdir()} == before


def test_a_lock_left_beside_a_finished_build_is_removed(tracking_source, tmp_path):
    build_dataset(tracking_source, tmp_path / "dataset")
    (tmp_path / ".dataset.lock").write_text("4242\n")
    assert build_dataset(tracking_source, tmp_path / "dataset").was_finished
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_another_configuration_does_not_touch_a_finished_build(trackml_events, undisturbed):
    other = open_tracking(trackml_events, TRACKING_PRESETS["tracking-6k"])
    with pytest.raises(InputError, match="a dataset that was built from other files or with another config"):
        build_dataset(other, undisturbed.out)


def test_another_configuration_does_not_continue_an_unfinished_build(
    trackml_events, tracking_source, tmp_path
):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=Listener(stop_after=2))
    other = open_tracking(trackml_events, SIXTY, max_events=5)
    with pytest.raises(InputError, match="an unfinished build from other files or with another config"):
        build_dataset(other, out)
    assert build_dataset(other, out, overwrite=True).n_events == 5


def test_a_changed_source_file_is_another_build(trackml_copy, tmp_path, edit_csv):
    out = tmp_path / "dataset"
    build_dataset(open_tracking(trackml_copy, SIXTY), out)
    edit_csv(trackml_copy / "event000001003-hits.csv", lambda table: table.assign(z=table.z * 1.0001))
    changed = open_tracking(trackml_copy, SIXTY)
    with pytest.raises(InputError, match="built from other files"):
        build_dataset(changed, out)
    assert not build_dataset(changed, out, overwrite=True).was_finished


def test_overwrite_keeps_the_same_build(tracking_source, tmp_path):
    build_dataset(tracking_source, tmp_path / "dataset")
    assert build_dataset(tracking_source, tmp_path / "dataset", overwrite=True).was_finished


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_no_dataset_is_never_touched(tracking_source, tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"something that already exists|files that are no dataset"):
        build_dataset(tracking_source, tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_staging_folder_that_is_not_ours_is_never_touched(tracking_source, tmp_path):
    staging = staging_of(tmp_path / "dataset")
    staging.mkdir()
    (staging / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"'thesis.tex', which no build writes"):
        build_dataset(tracking_source, tmp_path / "dataset", overwrite=True)
    assert (staging / "thesis.tex").exists()


def test_a_damaged_note_is_not_believed(tracking_source, tmp_path, same_bytes):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=Listener(stop_after=4))
    notes = sorted(staging_of(out).glob("*.parquet.json"))
    notes[0].write_text("{")
    shard = Path(str(notes[1]).removesuffix(".json"))
    shard.write_bytes(shard.read_bytes()[:-1])
    build_dataset(tracking_source, out)
    same_bytes(out)


def watch_syncs(monkeypatch, refused=()):
    """Names of the files that are brought to the disk from now on; the refused ones find it full."""
    names, sync = [], os.fsync

    def watched(descriptor):
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        if names[-1] in refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return names


@pytest.mark.parametrize("position", [0, -1])
def test_a_shard_that_finds_the_disk_full_is_reported_and_written_again(
    tracking_source, tmp_path, same_bytes, undisturbed, monkeypatch, position
):
    out = tmp_path / "dataset"
    shards = [shard.name for part in Manifest.read(undisturbed.out).splits.values() for shard in part]
    with monkeypatch.context() as patch:
        watch_syncs(patch, refused=(shards[position],))
        with pytest.raises(JobError, match=rf"{shards[position]}: found no space left on the disk"):
            build_dataset(tracking_source, out)
    assert not (staging_of(out) / shards[position]).exists()
    assert build_dataset(tracking_source, out).n_resumed < len(shards)
    same_bytes(out)


def test_shards_of_an_earlier_run_are_brought_to_the_disk(tracking_source, tmp_path, monkeypatch):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=Listener(stop_after=4))
    synced = watch_syncs(monkeypatch)
    assert build_dataset(tracking_source, out).n_resumed
    assert {path.name for path in out.glob("*.parquet")} <= set(synced)


def test_a_staging_folder_whose_notes_are_gone_is_begun_anew(tracking_source, tmp_path, same_bytes):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=Listener(stop_after=4))
    (staging_of(out) / "build.json").unlink()
    assert build_dataset(tracking_source, out).n_resumed == 0
    same_bytes(out)


def test_two_builds_of_the_same_folder(tracking_source, tmp_path):
    context = multiprocessing.get_context("fork")
    is_held, may_go = context.Event(), context.Event()
    holder = context.Process(target=hold_lock, args=(tmp_path / "dataset", is_held, may_go))
    holder.start()
    try:
        assert is_held.wait(60)
        with pytest.raises(InputError, match="another process at work on it"):
            build_dataset(tracking_source, tmp_path / "dataset")
    finally:
        may_go.set()
        holder.join()


def test_an_unusable_event_stops_the_build_and_is_named(trackml_copy, tmp_path):
    (trackml_copy / "event000001002-truth.csv").unlink()
    for workers in (1, 2):
        with pytest.raises(InputError, match="event 1002: found no truth file"):
            build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", workers=workers)
    assert not (tmp_path / "dataset").exists()


def test_an_unusable_event_is_skipped_on_request_and_recorded(trackml_copy, tmp_path):
    (trackml_copy / "event000001002-truth.csv").unlink()
    source = open_tracking(trackml_copy, SIXTY)
    with pytest.raises(InputError, match="event 1002"):
        build_dataset(source, tmp_path / "dataset")
    # The same command, now with leave to skip, goes on with what was done.
    summary = build_dataset(source, tmp_path / "dataset", on_error="skip")
    assert summary.n_resumed == 2
    assert summary.n_events == 5
    (entry,) = Manifest.read(tmp_path / "dataset").skipped
    assert (entry.event_id, entry.source) == (1002, "event000001002")
    assert "no truth file" in entry.reason
    dataset = hepdata.open_dataset(tmp_path / "dataset")
    assert sorted(dataset["train"][i].event_id for i in range(len(dataset["train"]))) == [1000, 1001, 1003]


def test_a_shard_whose_events_are_all_skipped_has_the_columns_of_the_others(trackml_copy, tmp_path):
    import pyarrow.parquet as pq

    (trackml_copy / "event000001001-truth.csv").unlink()
    build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    files = sorted((tmp_path / "dataset").glob("train-*.parquet"))
    assert pq.read_metadata(files[1]).num_rows == 0
    assert pq.read_schema(files[1]).names == pq.read_schema(files[0]).names


def test_skipping_does_not_move_events_between_splits(trackml_copy, tmp_path, undisturbed):
    (trackml_copy / "event000001000-hits.csv").unlink()
    build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    ours, whole = Manifest.read(tmp_path / "dataset"), Manifest.read(undisturbed.out)
    for split in ("valid", "test"):
        assert [shard.sha256 for shard in ours.splits[split]] == [s.sha256 for s in whole.splits[split]]


def test_a_build_that_skips_everything(trackml_copy, tmp_path):
    for path in trackml_copy.glob("*-hits.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"event000001000: found no usable event \(.*found no hits"):
        build_dataset(open_tracking(trackml_copy, SIXTY), tmp_path / "dataset", on_error="skip")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_skipped_events_are_looked_at_again_when_asked_to_stop(trackml_copy, tmp_path, edit_csv):
    for path in trackml_copy.glob("*-hits.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    source = open_tracking(trackml_copy, SIXTY)
    with pytest.raises(InputError, match="no usable event"):
        build_dataset(source, tmp_path / "dataset", on_error="skip")
    with pytest.raises(InputError, match="found no hits"):
        build_dataset(source, tmp_path / "dataset")


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
    build_dataset(
        tracking_source, tmp_path / "dataset", splits=SplitRule.parse("0/0/100"), events_per_shard=4
    )
    shards = Manifest.read(tmp_path / "dataset").splits
    assert {split: [record.rows for record in records] for split, records in shards.items()} == {
        "test": [4, 2]
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "--workers: found 0; expected at least 1"),
        ({"events_per_shard": 0}, "--events-per-shard: found 0"),
        ({"scheduler": "tcp://nowhere:1"}, "--scheduler: found 'tcp://nowhere:1' with --engine local"),
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


def test_the_note_in_the_staging_folder_is_plain_json(tracking_source, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, tmp_path / "dataset", progress=Listener(stop_after=1))
    note = json.loads((staging_of(tmp_path / "dataset") / "build.json").read_text())
    assert len(note["fingerprint"]) == 64
