"""Builds that were stopped, finished or are under way elsewhere: what is continued, left alone or refused."""

import errno
import json
import multiprocessing
import os
import re
from pathlib import Path

import pytest

from hepdata.errors import InputError, JobError
from hepdata.pipeline.build import build_dataset
from hepdata.pipeline.event_range import EventRange
from hepdata.pipeline.staging import staging_of
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking
from hepdata.storage.dataset.lock import lock_output
from hepdata.storage.dataset.manifest import Manifest
from hepdata.storage.dataset.own_files import mark_folder

SIXTY = TRACKING_PRESETS["tracking-60k"]


def hold_lock(out, is_held, may_go):
    with lock_output(Path(out)):
        is_held.set()
        may_go.wait(60)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_that_is_stopped_goes_on_where_it_was(tracking_source, tmp_path, same_bytes, workers, listen):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, workers=workers, progress=listen(stop_after=3))
    assert not out.exists()
    assert multiprocessing.active_children() == []
    listener = listen()
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
    trackml_events, tracking_source, tmp_path, listen
):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=listen(stop_after=2))
    other = open_tracking(trackml_events, SIXTY, events=EventRange(most=5))
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
    with pytest.raises(InputError, match=r"something that already exists|files that are not a dataset"):
        build_dataset(tracking_source, tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_staging_folder_that_is_not_ours_is_never_touched(tracking_source, tmp_path):
    staging = staging_of(tmp_path / "dataset")
    staging.mkdir()
    (staging / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"'thesis.tex', which no build writes"):
        build_dataset(tracking_source, tmp_path / "dataset", overwrite=True)
    assert (staging / "thesis.tex").exists()


def test_a_damaged_note_is_not_believed(tracking_source, tmp_path, same_bytes, listen):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=listen(stop_after=4))
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
        # A file under its temporary name stands for the file that it will be.
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        names.append(re.sub(r"^\.(.*\.parquet)\.[0-9a-f]+\.tmp$", r"\1", name))
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


def test_every_shard_is_on_the_disk_before_it_has_its_name(tracking_source, tmp_path, monkeypatch, listen):
    out = tmp_path / "dataset"
    synced = watch_syncs(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=listen(stop_after=4))
    shards = {path.name for path in staging_of(out).glob("*.parquet")}
    assert shards
    assert shards <= set(synced)


def test_a_staging_folder_that_was_never_signed_is_begun_anew(tracking_source, tmp_path, same_bytes, listen):
    out = tmp_path / "dataset"
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, out, progress=listen(stop_after=4))
    mark_folder(staging_of(out))
    assert build_dataset(tracking_source, out).n_resumed == 0
    same_bytes(out)


def test_two_builds_of_the_same_folder(tracking_source, tmp_path):
    context = multiprocessing.get_context("fork")
    is_held, may_go = context.Event(), context.Event()
    holder = context.Process(target=hold_lock, args=(tmp_path / "dataset", is_held, may_go))
    holder.start()
    try:
        assert is_held.wait(60)
        with pytest.raises(InputError, match="another process that is writing it"):
            build_dataset(tracking_source, tmp_path / "dataset")
    finally:
        may_go.set()
        holder.join()


def test_the_note_in_the_staging_folder_is_plain_json(tracking_source, tmp_path, listen):
    with pytest.raises(KeyboardInterrupt):
        build_dataset(tracking_source, tmp_path / "dataset", progress=listen(stop_after=1))
    note = json.loads((staging_of(tmp_path / "dataset") / "build.json").read_text())
    assert len(note["fingerprint"]) == 64
